# The entry of interrupts and faults. Each hart takes them on a stack of its own, whose end is in `sscratch`; 0 is there while a
# handler runs, so that a fault of a handler is told from others.

.section .text.traps, "ax"
.balign 4
.global trap_entry
trap_entry:
    csrrw sp, sscratch, sp
    beqz sp, 2f
    addi sp, sp, -288
    sd x1, 8(sp)
    sd x5, 40(sp)
    li x5, 0
1:  sd x3, 24(sp)
    sd x4, 32(sp)
    .irp n, 6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    sd x\n, 8*\n(sp)
    .endr
    csrr x6, sscratch
    sd x6, 16(sp)
    csrw sscratch, zero
    csrr x6, sepc
    sd x6, 256(sp)
    csrr x6, sstatus
    sd x6, 264(sp)
    mv a0, x5
    mv a1, sp
    call {trap}
    ld x6, 256(sp)
    csrw sepc, x6
    ld x6, 264(sp)
    csrw sstatus, x6
    addi x6, sp, 288
    csrw sscratch, x6
    .irp n, 1,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    ld x\n, 8*\n(sp)
    .endr
    ld sp, 16(sp)
    sret
2:  csrr sp, sscratch           # the handler's own stack goes on
    addi sp, sp, -288
    sd x1, 8(sp)
    sd x5, 40(sp)
    li x5, 1
    j 1b
