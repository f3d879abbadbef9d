# Entries of interrupts and faults: all registers saved, SSE included, as the precompiled core uses it everywhere.

.section .text.traps, "ax"
.align 16
.global trap_entries
trap_entries:
.set vector, 0
.rept 256
    .align 16
    # These push an error code by themselves.
    .if vector != 8 && vector != 10 && vector != 11 && vector != 12 && vector != 13 && vector != 14 && vector != 17 && vector != 21
        push 0
    .endif
    push vector
    jmp trap_common
    .set vector, vector + 1
.endr

trap_common:
    push rax
    push rbx
    push rcx
    push rdx
    push rsi
    push rdi
    push rbp
    push r8
    push r9
    push r10
    push r11
    push r12
    push r13
    push r14
    push r15
    cld
    mov rdi, rsp
    mov rbx, rsp
    sub rsp, 512
    and rsp, -16
    fxsave64 [rsp]
    inc dword ptr gs:[{DEPTH}]
    call {trap}
    dec dword ptr gs:[{DEPTH}]
    fxrstor64 [rsp]
    mov rsp, rbx
    pop r15
    pop r14
    pop r13
    pop r12
    pop r11
    pop r10
    pop r9
    pop r8
    pop rbp
    pop rdi
    pop rsi
    pop rdx
    pop rcx
    pop rbx
    pop rax
    add rsp, 16
    iretq
