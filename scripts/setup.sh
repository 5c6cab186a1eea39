#!/bin/bash
# Installs what the project needs and is missing: system packages, a Python environment in .venv, and the
# virtual-time kernel and the gateway's XDP programs (both cached outside the clone). Says what it does, does nothing
# twice, and may be run at any time.
# usage: scripts/setup.sh [--bench] [--no-kernel]
set -euo pipefail
cd "$(dirname "$0")/.."

groups="base" kernel=yes
for argument in "$@"; do
    case "$argument" in
        --bench) groups="base bench" ;;
        --no-kernel) kernel=no ;;
        *) echo "error: setup.sh: unknown option '$argument': --bench or --no-kernel" >&2; exit 2 ;;
    esac
done

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 3; }

# Python and the clone belong to the clone's owner, also under sudo; only packages and the shared cache need root.
owner=$(stat -c %u .)
as_owner() {
    if [ "$(id -u)" = 0 ] && [ "$owner" != 0 ]; then
        setpriv --reuid="$owner" --regid="$(stat -c %g .)" --init-groups env HOME="$(getent passwd "$owner" | cut -d: -f6)" "$@"
    else
        "$@"
    fi
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# What a command prints is shown only if it fails, and then the end of it.
quietly() { "$@" > "$log" 2>&1 || { tail -n 5 "$log" >&2; return 1; }; }

[ "$(uname -m)" = x86_64 ] || fail "this machine is $(uname -m): the virtual-time kernel runs on x86_64 only"
command -v apt-get > /dev/null || fail "there is no apt-get here: this set-up is for Debian and its derivatives"

# 1. System packages
wanted=$(awk -v groups=" $groups " '/^# group:/ {on = index(groups, " " $3 " ")} /^[^#]/ && on {print $1}' scripts/packages.txt)
# dpkg-query fails for packages that it has never heard of, which only means that they are missing.
have=$({ dpkg-query -W -f '${Package} ${db:Status-Status}\n' $wanted 2> /dev/null || true; } | awk '$2 == "installed" {print $1}')
missing=$(comm -23 <(sort <<< "$wanted") <(sort <<< "$have"))
if [ -n "$missing" ]; then
    list=$(tr '\n' ' ' <<< "$missing")
    [ "$(id -u)" = 0 ] || fail "missing packages: ${list% }: install them with 'sudo make setup'"
    say "installing with apt: $list"
    export DEBIAN_FRONTEND=noninteractive
    quietly apt-get -q update || fail "apt could not read the package lists"
    quietly apt-get -q install -y --no-install-recommends $missing || fail "apt could not install: ${list% }"
else
    say "system packages: all there"
fi

# 2. Python environment
python=/usr/bin/python3
[ -x "$python" ] || python=$(command -v python3) || fail "there is no python3"
"$python" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' \
    || fail "$python is $("$python" -V 2>&1): 3.10 to 3.13 is needed"
stamp=$(cat setup.cfg pyproject.toml scripts/build-constraints.txt <("$python" -V) <(pwd) | sha256sum | cut -d' ' -f1)
if [ "$(cat .venv/.icgw-stamp 2> /dev/null || true)" = "$stamp" ]; then
    say "Python environment: up to date (.venv)"
else
    say "making the Python environment in .venv (Ryu, pydantic, matplotlib and others, from the configured package index)"
    [ -x .venv/bin/python ] || as_owner "$python" -m venv --system-site-packages .venv
    pip() { quietly as_owner .venv/bin/python -m pip --disable-pip-version-check "$@"; }
    # Ryu's build needs a setuptools older than 67; build constraints need a pip newer than Debian's.
    pip install --upgrade 'pip>=25.3' 'setuptools<67' wheel || fail "pip could not upgrade itself in .venv"
    pip install --build-constraint scripts/build-constraints.txt 'ryu==4.34' || fail "pip could not install ryu"
    pip install --no-build-isolation --editable '.[dev]' || fail "pip could not install the project's requirements"
    as_owner sh -c "echo $stamp > .venv/.icgw-stamp"
fi

# 3. The virtual-time kernel
if [ "$kernel" = yes ]; then
    image=$("$python" kernel/build.py) || exit $?
    say "virtual-time kernel: $(tail -n 1 <<< "$image")"
fi

# 4. The gateway's XDP programs
programs=$(as_owner .venv/bin/python -m gateway.offload.build) || exit $?
say "XDP programs: $(dirname "$(tail -n 1 <<< "$programs")")"
