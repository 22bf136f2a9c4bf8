#!/bin/sh
# Prints the Python that set-up is to run with: that of .venv if it can stay, else one to make .venv anew with.
# PYTHON=... in the environment names the one to use. Without it, the first in PATH that is supported and has venv.
oldest=11
newest=14
supported="Python 3.$oldest to 3.$newest"
kept=.venv/bin/python

version_of() { "$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null; }

is_supported() {
    case $1 in 3.*.*) minor=${1#3.} minor=${minor%%.*} ;; *) return 1 ;; esac
    [ "$minor" -ge $oldest ] && [ "$minor" -le $newest ]
}

has_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

refuse() {
    printf '%s\n' "$@" >&2
    exit 1
}

# Installed scripts hold absolute paths, so what was installed in another folder is of no use.
kept_version=
for stamp in .venv/.installed .venv/.installed-run; do
    if [ -e "$stamp" ] && [ "$(cat "$stamp")" != "$(pwd -P)" ]; then kept=; fi
done
if [ -n "$kept" ] && "$kept" -c 'import pip' 2>/dev/null; then kept_version=$(version_of "$kept"); fi
is_supported "$kept_version" || kept_version=

if [ -n "$PYTHON" ]; then
    version=$(version_of "$PYTHON")
    [ -n "$version" ] || refuse "PYTHON=$PYTHON is no Python that starts. Set-up works with $supported."
    is_supported "$version" || refuse "PYTHON=$PYTHON is Python $version. Set-up works with $supported."
    if [ "$version" = "$kept_version" ]; then echo "$kept"; exit; fi
    has_venv "$PYTHON" || refuse "PYTHON=$PYTHON has no venv module. Debian and Ubuntu have it in a package: apt install python3-venv"
    echo "$PYTHON"
    exit
fi
if [ -n "$kept_version" ]; then echo "$kept"; exit; fi

others=
without_venv=
for candidate in python3 python3.14 python3.13 python3.12 python3.11 python; do
    version=$(version_of "$candidate")
    if ! is_supported "$version"; then
        others="$others${version:+, $candidate is $version}"
    elif has_venv "$candidate"; then
        echo "$candidate"
        exit
    else
        without_venv=${without_venv:-$candidate}
    fi
done
if [ -n "$without_venv" ]; then
    refuse "$without_venv has no venv module. Debian and Ubuntu have it in a package: apt install python3-venv"
fi
refuse "Set-up works with $supported, and PATH has none of them${others:+ (${others#, })}." \
    "Install one, or name it: make setup PYTHON=/path/to/python3.$newest"
