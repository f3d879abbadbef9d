# From the firmware to Rust.
#
#   SBI ──► _start(hart, device tree) ──► start(device tree)    the first hart, in S mode, without paging
#   HSM ──► second(hart, stack) ──► start_other(number)         all others: their stack in a1, and the number at its end
#
# Page tables of the boot, used for good: the first 4 GiB at address 0, where the image runs, and again in the upper half,
# which is the direct map. In pages of 1 GiB; physical attributes keep devices uncached.

.section .data.boot, "aw"
.balign 4096
.global root_table
root_table:
    .quad 0x000000cf, 0x100000cf, 0x200000cf, 0x300000cf
    .fill 252, 8, 0
    .quad 0x000000cf, 0x100000cf, 0x200000cf, 0x300000cf
    .fill 252, 8, 0

.section .bss.boot, "aw", @nobits
.balign 16
.skip 128 * 1024
first_stack_top:

.section .text.boot, "ax"
.macro begin_paging
    la t0, root_table
    srli t0, t0, 12
    li t1, 8 << 60              # Sv39
    or t0, t0, t1
    sfence.vma
    csrw satp, t0
    sfence.vma
.endm

.global _start
_start:
    csrw sie, zero
    la sp, first_stack_top
    mv s0, a0
    mv s1, a1
    begin_paging
    la t0, first_hart
    sd s0, (t0)
    mv a0, s1
    call start
1:  j 1b

.global second
second:
    csrw sie, zero
    mv s1, a1
    begin_paging
    mv sp, s1
    ld a0, (sp)
    call start_other
1:  j 1b

.section .data.boot
.balign 8
.global first_hart
first_hart: .quad 0
