# From the loader to Rust.
#
#   loader (PVH) ── 32 bits, no paging ──► pvh_entry ──► long mode ──► start(info)         the first CPU
#   start-up interrupt ── 16 bits ──► trampoline, copied to 0x8000 ──► start_other(number) all others
#
# Page tables of the boot, used for good: the first 4 GiB at address 0, where the image runs, and again in the upper half,
# which is the direct map. In pages of 2 MiB; the last GiB, where devices are, uncached.

.set TRAMPOLINE, 0x8000
.set CR4_BITS, 0x620        # physical address extension, SSE and its exceptions
.set CR0_BITS, 0x80010023   # paging, write protection, native x87 errors, monitor, protection
.set CR0_CLEAR, 0x6000000c  # cache disabled, not write-through, emulation, task switched
.set EFER, 0xc0000080
.set EFER_BITS, 0x900       # long mode, no-execute

# What every CPU does, in 32 and in 16 bits: the page tables, then long mode with them, then no segments.
.macro take_root_table
    mov %cr4, %eax
    or $CR4_BITS, %eax
    mov %eax, %cr4
    mov $root_table, %eax
    mov %eax, %cr3
    mov $EFER, %ecx
    rdmsr
    or $EFER_BITS, %eax
    wrmsr
.endm

.macro begin_paging
    mov %cr0, %eax
    and $~CR0_CLEAR, %eax
    or $CR0_BITS, %eax
    mov %eax, %cr0
.endm

.macro clear_segments
    xor %eax, %eax
    mov %ax, %ds
    mov %ax, %es
    mov %ax, %fs
    mov %ax, %gs
    mov %ax, %ss
.endm

.section .note.Xen, "a", @note
.align 4
.long 4, 8, 18              # XEN_ELFNOTE_PHYS32_ENTRY
.asciz "Xen"
.quad pvh_entry

.section .bss.boot, "aw", @nobits
.align 4096
.global root_table
root_table: .skip 4096
third_level: .skip 4096
second_level: .skip 4 * 4096
.skip 128 * 1024
first_stack_top:

.section .data.boot, "aw"
.align 8
.global next_stack
next_stack: .quad 0         # the stack and the number of the CPU that is being started
.global next_number
next_number: .quad 0
.align 8
boot_gdt: .quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff
boot_gdt_end:
boot_gdt_pointer:
    .short boot_gdt_end - boot_gdt - 1
    .quad boot_gdt

.section .text.boot, "ax"
.code32
.global pvh_entry
pvh_entry:
    cld
    mov %ebx, %ebp          # the loader's information

    movl $third_level + 3, root_table
    movl $third_level + 3, root_table + 256 * 8
    mov $third_level, %edi
    mov $second_level + 3, %eax
    mov $4, %ecx
1:  mov %eax, (%edi)
    add $8, %edi
    add $4096, %eax
    loop 1b

    mov $second_level, %edi
    mov $0x83, %eax         # present, writable, a leaf
    mov $2048, %ecx
2:  mov %eax, (%edi)
    cmp $0xc0000000, %eax
    jb 3f
    orl $0x10, (%edi)       # uncached
3:  add $8, %edi
    add $0x200000, %eax
    loop 2b

    take_root_table
    begin_paging
    lgdt boot_gdt_pointer
    ljmp $8, $first_long

.code64
first_long:
    clear_segments
    mov $first_stack_top, %esp
    mov %ebp, %edi
    xor %ebp, %ebp
    call start
    ud2

# Another CPU, in 16 bits, with CS = TRAMPOLINE / 16. Nothing here is where it was linked.
.section .rodata.trampoline, "a"
.align 16
.global trampoline_start, trampoline_end
.code16
trampoline_start:
    cli
    cld
    xor %ax, %ax
    mov %ax, %ds
    take_root_table
    lgdtl (TRAMPOLINE + other_gdt_pointer - trampoline_start)
    begin_paging
    ljmpl $8, $(TRAMPOLINE + other_long - trampoline_start)

.code64
other_long:
    clear_segments
    movabs $next_stack, %rax
    mov (%rax), %rsp
    movabs $next_number, %rax
    mov (%rax), %rdi
    xor %ebp, %ebp
    movabs $start_other, %rax
    call *%rax
    ud2

.align 8
other_gdt: .quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff
other_gdt_pointer:
    .short other_gdt_pointer - other_gdt - 1
    .long TRAMPOLINE + other_gdt - trampoline_start
trampoline_end:
