// From the loader to Rust.
//
//   loader ──► _start ──► start(device tree)                   the first CPU, at EL1, without its MMU
//   CPU_ON ──► second ──► start_other(number)                  all others: their stack in x0, and the number at its end
//
// Page tables of the boot, used for good: the first 4 GiB at address 0, where the image runs, and again in the upper half,
// which is the direct map. In blocks of 1 GiB; the first, where devices are, is a device's.

.set MAIR, 0x04ff               // type 0: memory, cached; type 1: a device
.set TCR, 0x4b5103510           // 48 bits each half, pages of 4 KiB, walks cached and shared, 44 bits of physical addresses
.set SCTLR_BITS, 0x1005         // MMU, data and instruction caches
.set TREE, 0x40000000           // where QEMU puts the device tree of a kernel in ELF

.section .data.boot, "aw"
.balign 4096
low_root:
    .quad map + 3
    .fill 511, 8, 0
.global root_table
root_table:
    .fill 256, 8, 0
    .quad map + 3
    .fill 255, 8, 0
map:
    .quad 0x0060000000000405
    .quad 0x0000000040000701
    .quad 0x0000000080000701
    .quad 0x00000000c0000701
    .fill 508, 8, 0

.section .bss.boot, "aw", @nobits
.balign 16
.skip 128 * 1024
first_stack_top:

.section .text.boot, "ax"
.macro begin_paging
    ldr x1, =MAIR
    msr mair_el1, x1
    ldr x1, =TCR
    msr tcr_el1, x1
    ldr x1, =low_root
    msr ttbr0_el1, x1
    ldr x1, =root_table
    msr ttbr1_el1, x1
    dsb sy
    tlbi vmalle1
    dsb sy
    isb
    mrs x1, sctlr_el1
    ldr x2, =SCTLR_BITS
    orr x1, x1, x2
    msr sctlr_el1, x1
    isb
    msr spsel, #0               // exceptions have a stack of their own
.endm

.global _start
_start:
    msr daifset, #15
    begin_paging
    ldr x1, =first_stack_top
    mov sp, x1
    ldr x0, =TREE
    bl start
    b .

.global second
second:
    msr daifset, #15
    mov x19, x0
    begin_paging
    mov sp, x19
    ldr x0, [sp]
    bl start_other
    b .
