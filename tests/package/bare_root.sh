# shellcheck shell=bash
# Sourced: a bare Debian root, as a container has it, that is gone when the script ends.
# BARE_ROOT_SUITE is what to make it of, bookworm by default; BARE_ROOT_FROM a directory with such a
# root, which is copied in place of a download.
suite=${BARE_ROOT_SUITE:-bookworm}
((EUID == 0)) || { echo "run this as root" >&2; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/redlatch-root.XXXXXX")
root=$work/root
# The mounts are of the namespace in which `inside` runs, and end with it.
trap 'rm -rf --one-file-system "$work"' EXIT

make_root() {
  if [[ -n ${BARE_ROOT_FROM:-} ]]; then
    cp -a "$BARE_ROOT_FROM" "$root"
  else
    command -v debootstrap >/dev/null || { echo "there is no debootstrap" >&2; exit 77; }
    debootstrap --variant=minbase "$suite" "$root" >"$work/log" ||
      { tail "$work/log"; exit 1; }
  fi
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  cp /etc/hosts "$root/etc/hosts"
}

# inside: runs the bash script on stdin in the root; whatever it leaves running is killed.
inside() {
  cat >"$root/root/script"
  # shellcheck disable=SC2016  # expanded by the shell that it starts
  unshare --mount --pid --fork --kill-child bash -euc '
    mount -t proc proc "$0/proc"
    mount -t sysfs -o ro sysfs "$0/sys"
    mount -t devpts -o newinstance,ptmxmode=666 devpts "$0/dev/pts"
    mount -t tmpfs tmpfs "$0/dev/shm"
    chroot "$0" /usr/bin/env -i HOME=/root LANG=C.UTF-8 \
      ${REDLATCH_TEST_FOLDERS:+"REDLATCH_TEST_FOLDERS=$REDLATCH_TEST_FOLDERS"} \
      PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      bash -eu /root/script
    exit $?  # this shell stays, as the first process, which reaps what others leave
  ' "$root" </dev/null
}
