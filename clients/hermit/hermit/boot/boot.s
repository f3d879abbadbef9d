# From QEMU to Hermit's entry, in place of its loader.
#
#   QEMU (PVH) ── 32 bits, no paging ──► pvh_entry ──► long mode ──► boot::start(information) ──► _start
#
# Page tables, which become the kernel's: the first GiB at its own addresses, in pages of 2 MiB. `boot::start` takes the first
# of them out again: there the kernel itself maps what it looks for.

.set CR4_BITS, 0x20         # physical address extension
.set CR0_BITS, 0x80010001   # paging, write protection, protection
.set EFER, 0xc0000080
.set EFER_BITS, 0x900       # long mode, no-execute

.section .note.Xen, "a", @note
.align 4
.long 4, 8, 18              # XEN_ELFNOTE_PHYS32_ENTRY
.asciz "Xen"
.quad pvh_entry

.section .bss.boot, "aw", @nobits
.align 4096
root_table: .skip 4096
third_level: .skip 4096
.global second_level
second_level: .skip 4096
.global boot_stack
boot_stack: .skip 0x8000

.section .data.boot, "aw"
.align 8
boot_gdt: .quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff
boot_gdt_end:
boot_gdt_pointer:
    .short boot_gdt_end - boot_gdt - 1
    .quad boot_gdt

# As words, not as symbols: a compiler takes no address for zero.
.global boot_tls
boot_tls: .quad tls_start, tls_file_bytes, tls_bytes, tls_align

.section .text.boot, "ax"
.code32
.global pvh_entry
pvh_entry:
    cld
    mov %ebx, %ebp          # the information

    movl $third_level + 3, root_table
    movl $second_level + 3, third_level
    mov $second_level, %edi
    mov $0x83, %eax         # present, writable, a leaf
    mov $512, %ecx
1:  mov %eax, (%edi)
    add $8, %edi
    add $0x200000, %eax
    loop 1b

    mov %cr4, %eax
    or $CR4_BITS, %eax
    mov %eax, %cr4
    mov $root_table, %eax
    mov %eax, %cr3
    mov $EFER, %ecx
    rdmsr
    or $EFER_BITS, %eax
    wrmsr
    mov %cr0, %eax
    or $CR0_BITS, %eax
    mov %eax, %cr0
    lgdt boot_gdt_pointer
    ljmp $8, $first_long

.code64
first_long:
    mov $16, %eax
    mov %ax, %ds
    mov %ax, %es
    mov %ax, %ss
    mov $boot_stack + 0x8000, %esp
    mov %ebp, %edi
    xor %ebp, %ebp
    call boot_start
    ud2
