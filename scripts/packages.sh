# Sourced by the scripts beside it: what the machine needs beside the Rust toolchain.

# Installs the Debian packages that lack a program of theirs, given as PROGRAM:PACKAGE, where that can be done without asking
# (root and apt). Otherwise says the one command that does it, and fails.
need() {
    local pair missing=()
    for pair in "$@"; do
        command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
    done
    [[ ${#missing[@]} -eq 0 ]] && return
    if [[ $(id -u) -eq 0 ]] && command -v apt-get >/dev/null; then
        echo "Installing ${missing[*]}" >&2
        # An index that is too old, or none, makes the first attempt fail.
        DEBIAN_FRONTEND=noninteractive apt-get install -y -q "${missing[@]}" >/dev/null 2>&1 && return
        apt-get update -q >/dev/null
        DEBIAN_FRONTEND=noninteractive apt-get install -y -q "${missing[@]}" >/dev/null
        return
    fi
    echo "Missing: ${missing[*]}. Install with:  sudo apt-get install ${missing[*]}" >&2
    return 1
}

# Fails with one line where nothing can be mounted.
need_fuse_device() {
    [[ -c /dev/fuse ]] && return
    echo "/dev/fuse is missing: load it with 'modprobe fuse', or start the container with --device /dev/fuse --cap-add SYS_ADMIN" >&2
    return 1
}
