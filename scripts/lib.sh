# Shared by the scripts: sourced, not run. Everything is idempotent, and quick when it is already there.
# Tools live outside the checkout, in HUDIFS_TOOLS.
HUDIFS_TOOLS=${HUDIFS_TOOLS:-$HOME/.cache/hudifs-tools}
mkdir -p "$HUDIFS_TOOLS"

# say TEXT: progress, on stderr.
say() { printf '%s\n' "$*" >&2; }

# skip WHY: loud, and counted by scripts/test.
skip() {
    printf 'SKIPPED: %s\n' "$*" >&2
    if [ -n "${HUDIFS_SKIPPED_FILE:-}" ]; then printf 'SKIPPED: %s\n' "$*" >>"$HUDIFS_SKIPPED_FILE"; fi
}

# have COMMAND
have() { command -v "$1" >/dev/null 2>&1; }

# debian PACKAGE...: installs what is missing, as root.
debian() {
    local missing=() p
    for p in "$@"; do dpkg -s "$p" >/dev/null 2>&1 || missing+=("$p"); done
    [ ${#missing[@]} -eq 0 ] && return 0
    [ "$(id -u)" = 0 ] || { say "missing Debian packages, and not root: ${missing[*]}"; return 1; }
    { [ -n "${HUDIFS_APT_UPDATED:-}" ] || apt-get update -qq; } >&2 && export HUDIFS_APT_UPDATED=1
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# venv NAME PACKAGE...: a Python environment with those packages from PyPI; prints its python.
venv() {
    local dir="$HUDIFS_TOOLS/venv-$1" want
    shift
    want=$(printf '%s\n' "$@" | sort)
    if [ ! -x "$dir/bin/python" ] || [ "$(cat "$dir/.packages" 2>/dev/null)" != "$want" ]; then
        have python3 || return 1
        python3 -m venv "$dir" >&2 && "$dir/bin/python" -m pip install -q --disable-pip-version-check "$@" >&2 || return 1
        printf '%s\n' "$want" >"$dir/.packages"
    fi
    printf '%s\n' "$dir/bin/python"
}

# cargo_tool CRATE: a program from the crates registry; prints its path.
cargo_tool() {
    local bin="$HUDIFS_TOOLS/cargo/bin/$1"
    [ -x "$bin" ] || CARGO_TARGET_DIR="$HUDIFS_TOOLS/cargo/target" cargo install --quiet --locked --root "$HUDIFS_TOOLS/cargo" "$1" >&2 || return 1
    printf '%s\n' "$bin"
}
