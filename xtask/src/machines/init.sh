#!/bin/busybox sh
# The first process of the machine. It mounts what programs expect, runs the jobs of /jobs one after another, and turns
# the machine off. The console gets a line before each job and one behind it, for `cargo xtask machines`.

attach() {
    /bin/busybox mkdir -p "$1"
    /bin/busybox mount -t "$2" "$2" "$1" || echo "$1 can't be mounted"
}

millis() {
    read -r seconds _ </proc/uptime
    echo "${seconds%.*}${seconds#*.}0"
}

# job NAME SECONDS proc|no-proc SETTINGS PROGRAM WORD...
job() {
    name=$1 limit=$2 proc=$3 settings=$4
    shift 4
    echo "== begin $name"
    start=$(millis)
    [ "$proc" = proc ] || /bin/busybox umount -l /proc
    # A session of its own, so that signals to its group stay there.
    /bin/busybox env $settings /bin/busybox setsid /bin/busybox timeout -s KILL "$limit" "$@" </dev/null
    end="exit $?"
    [ "$proc" = proc ] || attach /proc proc
    # What it has left behind: all but the first process.
    kill -9 -1 2>/dev/null
    took=$(($(millis) - start))
    [ "$took" -lt "${limit}000" ] || end=late
    echo "== end $name $took $end"
}

export PATH=/bin HOME=/tmp TMPDIR=/tmp
attach /proc proc
attach /sys sysfs
attach /dev devtmpfs
attach /dev/shm tmpfs
attach /tmp tmpfs
cd /tmp
echo "== linux $(/bin/busybox uname -r)"
. /jobs
echo "== over after $(millis) ms"
/bin/busybox poweroff -f
