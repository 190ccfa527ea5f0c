"""Things that go wrong with logs, made to happen on purpose: for the demo, for tests, for study.

    divergences                      the scenarios: how replicas come to disagree, step by step
    stage, hands, looking            what they are made of: a topic, its clients, a look at replicas
    places, sim_cluster, guarding    where one is played, and with what beside it
    performing, demo                 from the first step to the verdict; four of them as one story
    stores_eos, streams_eos          exactly once, and yet wrong: our stores and Kafka Streams

A scenario is a plain function on a `Stage`; `sexton lab run` and the tests run the same ones.
"""
