#!/usr/bin/env bash
# Writes requirements/: what `make setup` installs, each file pinned by hash, for every platform.
#
# $1 is the uv to use; `make lock` passes the one in .venv. The files name no package index, so
# that whoever uses a mirror gets the same bytes from there (docs/decisions/0001).
set -euo pipefail
cd "$(dirname "$0")/.."
uv=${1:-uv}
export UV_SYSTEM_CERTS=1

compile() {
  "$uv" pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-header "$@"
}

printf 'lock: choosing versions\n'
compile pyproject.toml --extra all --group dev --output-file requirements/dev.txt
# The uv that pip fetches first is the very one that the lock holds.
sed -n '/^uv==/,/^[a-z]/p' requirements/dev.txt | grep -E '^(uv==|    --hash)' | sed '$s/ \\$//' \
  >requirements/uv.txt
printf 'lock: wrote requirements/dev.txt and requirements/uv.txt\n'
