"""What was found, shown to people and to programs; knows nothing about command lines.

    audit_page          all that an audit has to tell         ──▶ audit_text, _html, _json, _files
    validation_page     all that a validation has to tell     ──▶ validation_text, _html, _files
    findings, tables    findings and rows of any command      ──▶ a terminal, a pipe, JSON or TSV
    prometheus          metrics as text
    serving             a few pages over HTTP

A page is made once, and every form is made from it: so no form can say what another does not.
"""
