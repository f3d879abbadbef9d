/*
 * vmalloc: areas of virtual memory with guard pages, found by any address inside; mappings of the
 * same pages at several addresses; stacks, slots, sub-spaces; and the address map alone.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 * `cargo xtask header --bless` makes this file: changes belong into crates/vmalloc-c/src.
 *
 *   vmalloc_space *space = vmalloc_open(NULL, NULL);
 *   char *buffer = vmalloc_zalloc(space, 1 << 20, NULL);     an unmapped guard page follows
 *   buffer[0] = 1;
 *   int refused = vmalloc_free(space, buffer, NULL);         0, or a negative errno
 *   vmalloc_close(space);
 *
 * ANSWERS. A call that returns a pointer returns NULL when it fails, and sets errno. Any other call
 * that can fail returns 0, or a negative errno. The variable errno tells something only after a call
 * that failed by returning NULL: any other call may change it, also one that succeeds. A failed call
 * changes nothing else. The last parameter, `detail`, may be NULL. Else the library fills it where the
 * call fails: the code, its family, the figures, and the message.
 *
 * STRUCTS of options and of figures begin with their size: VMALLOC_..._INIT sets it, and zeros for
 * all else, which is the default of every field. So programs and libraries of different versions go
 * together. Bytes that the library does not know have to be zero, or the answer is -E2BIG. Figures
 * that the library does not know are zero.
 *
 * HANDLES are opaque. One call makes a handle and one ends it, and NULL may be ended. A handle keeps
 * what it stands on: a space that is closed lives on behind its mappings, frames and slots.
 *
 * THREADS. All threads may use all handles at once, where a call does not say otherwise. The call
 * that ends a handle is the last one.
 *
 * FORKS. Parent and child may go on after fork(), whatever other threads were doing. Areas of threads
 * that the child does not have are lost to the child.
 *
 * SIGNALS. Handlers may call vmalloc_free_atomic() and vmalloc_try_find(), and nothing else. Both
 * leave errno alone.
 *
 * CALLBACKS may call everything but what ends the handle that they were called for. They return: an
 * exception, or a longjmp() out of them, is no way out. An exception ends the program.
 *
 * CONDITIONS of every call: a handle was returned by the library and not ended since. A pointer to a
 * struct leads to one, whose `size` is true. An array has as many elements as the call is told. A
 * string ends with a zero byte. Other conditions stand at the call, behind "Requires". The behaviour
 * of a program that breaks one is undefined. NULL for a handle breaks none: the answer is -EINVAL.
 *
 * PANICS. A mistake inside the library never unwinds into the program: the message goes to the
 * standard error, and the program ends by abort().
 */
