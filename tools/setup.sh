#!/usr/bin/env bash
# Prepares the virtual environment named by $1, from nothing but some Python >= 3.11.
#
# Everything installed is pinned by hash: first uv by pip (requirements/uv.txt), then the rest by uv
# (requirements/dev.txt), which takes seconds where pip takes a minute. Then sexton itself, editable.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${1:-.venv}

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$@" >&2; exit 1; }

# A name on the PATH proves little (version managers leave shims behind), so each one is asked.
find_python() {
  local name
  for name in python3 python3.14 python3.13 python3.12 python3.11; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
      command -v "$name"
      return
    fi
  done
  fail "no Python >= 3.11 found (looked for python3, python3.14 ... python3.11 on the PATH)" \
    "install one, for example: apt-get install python3.11 python3.11-venv, or brew install python"
}

make_venv() {
  local python
  python=$(find_python)
  "$python" -c 'import venv, ensurepip' >/dev/null 2>&1 ||
    fail "$python has no venv module" "install it, for example: apt-get install python3-venv"
  say "creating $venv with $("$python" --version)"
  "$python" -m venv --clear "$venv"
}

# uv does not read pip's settings; whoever points pip at a mirror means uv too.
follow_pip_settings() {
  local pip=("$venv/bin/python" -m pip) index links
  export UV_SYSTEM_CERTS=1 UV_PYTHON="$venv/bin/python" VIRTUAL_ENV="$venv"
  if [ -z "${UV_DEFAULT_INDEX:-}" ]; then
    index=${PIP_INDEX_URL:-$("${pip[@]}" config get global.index-url 2>/dev/null || true)}
    if [ -n "$index" ]; then export UV_DEFAULT_INDEX="$index"; fi
  fi
  links=${PIP_FIND_LINKS:-}
  if [ -z "${UV_FIND_LINKS:-}" ] && [ -d "$links" ]; then export UV_FIND_LINKS="$links"; fi
}

wanted_uv=$(sed -n 's/^uv==\([^ ;\\]*\).*/\1/p' requirements/uv.txt)

if ! "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  make_venv
fi
if [ "$("$venv/bin/uv" --version 2>/dev/null | cut -d ' ' -f 2)" != "$wanted_uv" ]; then
  "$venv/bin/python" -m pip --version >/dev/null 2>&1 || make_venv
  say "installing uv $wanted_uv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes \
    --requirement requirements/uv.txt
fi
follow_pip_settings
say "installing $(grep -c '^[a-z].*==' requirements/dev.txt) locked packages"
# A person sees uv's own progress bars; a log file gets by without 75 lines of package names.
if [ -t 2 ]; then quiet=(); else quiet=(--quiet); fi
"$venv/bin/uv" pip sync "${quiet[@]}" --compile-bytecode --require-hashes requirements/dev.txt
say "installing sexton itself, editable"
"$venv/bin/uv" pip install --quiet --no-deps --no-build-isolation --editable .
say "done: $("$venv/bin/python" --version) in $venv"
