#!/bin/busybox sh
# The first process of the machine. It idles for a minute, until the kernel's own threads have started what they start, runs
# the commands of /run, and turns the machine off.

/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs devtmpfs /dev
/bin/busybox --install -s /bin
export PATH=/bin

# The kernel's log has a thread of its own: what is said goes there, so that it comes in its turn.
say() {
    echo "$1" >/dev/kmsg
}

bench() {
    echo "$1" >/sys/module/vm/parameters/bench || say "FAILED bench $1"
}

# suite DESIGN MASK LOOPS WORKERS: the kernel's own suite over a design. The suite's module refuses to stay, so insmod
# tries a second way, and the suite runs twice.
suite() {
    bench settle
    say "== suite $1"
    module=ours
    case $1 in
    linux) module=linux ;;
    plain) echo N >/sys/module/vm/parameters/use_lazy ;;
    lazy) echo Y >/sys/module/vm/parameters/use_lazy ;;
    esac
    insmod "/suite-$module.ko" "nr_threads=$4" sequential_test_order=1 "test_loop_count=$3" "run_test_mask=$2" 2>/dev/null
    bench "$1"
}

memory() {
    sync
    free=$(grep MemFree /proc/meminfo)
    say "== memory $(grep -c . /proc/vmallocinfo) ${free//[^0-9]/}"
}

sleep 60
insmod /vm.ko || say "FAILED insmod"
. /run
rmmod vm
say "== over"
sleep 1
poweroff -f
