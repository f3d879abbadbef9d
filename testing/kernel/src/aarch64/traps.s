// Entries of exceptions. Each CPU takes them on a stack of its own; an exception on that one is a fault of the handler.

.section .text.traps, "ax"
.balign 2048
.global trap_vectors
trap_vectors:
.set vector, 0
.rept 16
    .balign 128
    sub sp, sp, #288
    stp x0, x1, [sp]
    mov x0, #vector
    b trap_common
    .set vector, vector + 1
.endr

trap_common:
    stp x2, x3, [sp, #16]
    stp x4, x5, [sp, #32]
    stp x6, x7, [sp, #48]
    stp x8, x9, [sp, #64]
    stp x10, x11, [sp, #80]
    stp x12, x13, [sp, #96]
    stp x14, x15, [sp, #112]
    stp x16, x17, [sp, #128]
    stp x18, x19, [sp, #144]
    stp x20, x21, [sp, #160]
    stp x22, x23, [sp, #176]
    stp x24, x25, [sp, #192]
    stp x26, x27, [sp, #208]
    stp x28, x29, [sp, #224]
    mrs x1, elr_el1
    stp x30, x1, [sp, #240]
    mrs x1, spsr_el1
    mrs x2, sp_el0
    stp x1, x2, [sp, #256]
    mov x1, sp
    bl {trap}
    ldp x1, x2, [sp, #256]
    msr spsr_el1, x1
    msr sp_el0, x2
    ldp x30, x1, [sp, #240]
    msr elr_el1, x1
    ldp x28, x29, [sp, #224]
    ldp x26, x27, [sp, #208]
    ldp x24, x25, [sp, #192]
    ldp x22, x23, [sp, #176]
    ldp x20, x21, [sp, #160]
    ldp x18, x19, [sp, #144]
    ldp x16, x17, [sp, #128]
    ldp x14, x15, [sp, #112]
    ldp x12, x13, [sp, #96]
    ldp x10, x11, [sp, #80]
    ldp x8, x9, [sp, #64]
    ldp x6, x7, [sp, #48]
    ldp x4, x5, [sp, #32]
    ldp x2, x3, [sp, #16]
    ldp x0, x1, [sp]
    add sp, sp, #288
    eret
