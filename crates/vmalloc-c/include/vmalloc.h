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

#ifndef VMALLOC_H
#define VMALLOC_H

#include <stddef.h>
#include <stdint.h>

#define VMALLOC_VERSION_MAJOR 0
#define VMALLOC_VERSION_MINOR 1
#define VMALLOC_VERSION_PATCH 0
/* As vmalloc_version() returns it. */
#define VMALLOC_VERSION \
    (VMALLOC_VERSION_MAJOR * 1000000u + VMALLOC_VERSION_MINOR * 1000u + VMALLOC_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

/* An alternate stack for signal handlers. */
typedef struct vmalloc_alt_stack vmalloc_alt_stack;

/* Owned frames. They go back when the handle and all mappings of them have ended. */
typedef struct vmalloc_frames vmalloc_frames;

/* A stack with memory behind its top part, which grows when the program says so. */
typedef struct vmalloc_growable vmalloc_growable;

/*
 * A map of numbers: addresses of a device, ids, blocks of a file. Its unit, a page, is whatever
 * the program says. It has no lock: one thread at a time uses it, or several only ask.
 */
typedef struct vmalloc_map vmalloc_map;

/* A mapping of frames. It keeps the frames, and ends with its handle. */
typedef struct vmalloc_mapping vmalloc_mapping;

/* A registered notifier. */
typedef struct vmalloc_notifier vmalloc_notifier;

/* A reservation that is divided among sub-spaces. */
typedef struct vmalloc_root vmalloc_root;

/* A slot: fixed addresses, of which the first are memory. */
typedef struct vmalloc_slot vmalloc_slot;

/* A pool of slots. Any thread may use it. */
typedef struct vmalloc_slots vmalloc_slots;

/* A space: memory and addresses are allocated from it. Any thread may use it. */
typedef struct vmalloc_space vmalloc_space;

/* A pool of guarded stacks, with addresses of its own. Any thread may use it. */
typedef struct vmalloc_stacks vmalloc_stacks;

/* A space that reports on traps look into. */
typedef struct vmalloc_watch vmalloc_watch;

/* ---- Families and codes of errors, with the errno of each ---- */

/* The call itself is wrong: a null pointer, a struct of another version, an unknown flag. */
#define VMALLOC_FAMILY_ARGUMENT 1

/* The request can never be met, whatever is free. */
#define VMALLOC_FAMILY_REQUEST 2

/* Addresses ran out, or those asked for are taken. */
#define VMALLOC_FAMILY_ROOM 3

/* Memory ran out, or a limit on it was met. */
#define VMALLOC_FAMILY_MEMORY 4

/* The address is not that of an area which the call is for. */
#define VMALLOC_FAMILY_AREA 5

/* The system refused. */
#define VMALLOC_FAMILY_SYSTEM 6

/* Something else is going on at this moment, or the state is damaged. */
#define VMALLOC_FAMILY_STATE 7

/* `EINVAL`: a pointer that must not be `NULL` is. */
#define VMALLOC_E_NULL 101

/* `EINVAL`: the `size` of a struct is smaller than that of any version. */
#define VMALLOC_E_STRUCT_SIZE 102

/* `E2BIG`: a struct sets bytes that this version of the library does not know. */
#define VMALLOC_E_UNKNOWN_BYTES 103

/* `EINVAL`: unknown flags, or flags that exclude each other. */
#define VMALLOC_E_FLAGS 104

/* `EINVAL`: a name is not UTF-8, or is missing. */
#define VMALLOC_E_NAME 105

/* `EINVAL`: an enumerator that this version of the library does not know. */
#define VMALLOC_E_VALUE 106

/* `EINVAL`: the size is zero. */
#define VMALLOC_E_ZERO_SIZE 201

/* `EOVERFLOW`: no object can be as large. */
#define VMALLOC_E_SIZE_OVERFLOW 202

/* `EINVAL`: the alignment is not a power of two, or not one that the call allows. */
#define VMALLOC_E_ALIGN 203

/* `EINVAL`: there is no such node. */
#define VMALLOC_E_NODE 206

/* `EINVAL`: limits are empty or reversed. */
#define VMALLOC_E_LIMITS 207

/* `ERANGE`: limits or a range leave the space. */
#define VMALLOC_E_OUTSIDE 208

/* `EINVAL`: a size or an address is not a multiple of the page size. */
#define VMALLOC_E_NOT_PAGES 209

/* `ERANGE`: a range leaves its area, slot or stack. */
#define VMALLOC_E_BEYOND 210

/* `EINVAL`: two ranges overlap. */
#define VMALLOC_E_OVERLAP 211

/* `EINVAL`: a count is zero, too large, or differs from another. */
#define VMALLOC_E_COUNT 212

/* `EINVAL`: a size is below the least, or a minimum above the most. */
#define VMALLOC_E_TOO_SMALL 213

/* `ERANGE`: a size is above the most. */
#define VMALLOC_E_TOO_LARGE 214

/* `EEXIST`: another sub-space has that name. */
#define VMALLOC_E_DUPLICATE_NAME 215

/* `EINVAL`: an area has another size than the call names. */
#define VMALLOC_E_WRONG_SIZE 216

/* `ENOSPC`: no free range can hold the request. The detail has the largest. */
#define VMALLOC_E_NO_SPACE 301

/* `EEXIST`: the addresses asked for are not all free. The detail has the area in the way. */
#define VMALLOC_E_OCCUPIED 302

/* `ENOSPC`: every slot of the pool is in use. */
#define VMALLOC_E_EXHAUSTED 303

/* `ENOMEM`: the system has no memory for it. */
#define VMALLOC_E_NO_MEMORY 401

/* `ENOMEM`: no memory for the metadata of the library. */
#define VMALLOC_E_METADATA 402

/* `EDQUOT`: the sub-space would have more mapped than its limit allows. */
#define VMALLOC_E_LIMIT 403

/* `EMFILE`: the limit on mappings of a program is met (`vm.max_map_count`). */
#define VMALLOC_E_MAP_LIMIT 404

/* `ENOMEM`: the limit on addresses is in the way (`RLIMIT_AS`), or the machine has no such room. */
#define VMALLOC_E_ADDRESS_LIMIT 405

/*
 * `EFAULT`: no area holds the address. So is a free of foreign memory, or of memory that was
 * freed and purged.
 */
#define VMALLOC_E_NOT_AN_AREA 501

/*
 * `EALREADY`: the area was freed before. A free that comes after the addresses were handed out
 * again is not caught.
 */
#define VMALLOC_E_ALREADY_FREED 502

/* `EINVAL`: the address is inside an area, not at its start. */
#define VMALLOC_E_INTERIOR 503

/* `EINVAL`: the address is not at the start of a page. */
#define VMALLOC_E_UNALIGNED 504

/* `EPERM`: the area is of another kind than the call is for. */
#define VMALLOC_E_WRONG_KIND 505

/* `EINVAL`: another number of pages is mapped there. */
#define VMALLOC_E_WRONG_COUNT 506

/* `ENOENT`: nothing is mapped or committed there. */
#define VMALLOC_E_NOT_MAPPED 507

/* `EEXIST`: something is mapped or committed there already. */
#define VMALLOC_E_MAPPED 508

/* `ENXIO`: a frame is not taken from the supply. */
#define VMALLOC_E_BAD_FRAME 509

/* `EOPNOTSUPP`: the kernel does not have it. */
#define VMALLOC_E_UNSUPPORTED 601

/* `EBUSY`: pages are locked, and may not be unlocked. */
#define VMALLOC_E_LOCKED 602

/* The `errno` of the call that failed, or `EIO`. */
#define VMALLOC_E_SYSTEM 603

/* `EAGAIN`: a call that never waits would have to wait for a lock. */
#define VMALLOC_E_CONTENDED 701

/* `EBUSY`: another thread grows the stack at this moment. */
#define VMALLOC_E_GROWING 702

/* `ENOTRECOVERABLE`: an invariant does not hold. The program should stop. */
#define VMALLOC_E_DAMAGED 703

/* ---- The detail of an error ---- */

/*
 * The detail of a failed call, which the library fills whole. Figures are bytes and addresses, or
 * the units of a `vmalloc_map`. A figure that does not belong to the code is 0.
 */
typedef struct vmalloc_error {
    /* One of `VMALLOC_E_...`, or 0. */
    int32_t code;
    /* One of `VMALLOC_FAMILY_...`: the hundreds of the code. */
    int32_t family;
    /* The `errno` of the call, positive. */
    int32_t error_number;
    /* The `errno` of the system call that failed, if that was the cause. */
    int32_t system_errno;
    /* The figure that was asked for: bytes with the guard page, a count, a size, flags. */
    uint64_t requested;
    /* The alignment asked for. */
    uint64_t alignment;
    /* The first address of the range that was asked for or searched. */
    uint64_t range_start;
    /* The address behind that range. */
    uint64_t range_end;
    /* The largest free range of the space. It may be misaligned, or outside the limits. */
    uint64_t largest_free;
    /* The limit that stands in the way. */
    uint64_t limit;
    /* The address that the error is about. */
    uint64_t addr;
    /* The first address of the area, range or sub-space in the way, or of the area that holds the
       address. */
    uint64_t other_start;
    /* The address behind that, if it is known. */
    uint64_t other_end;
    /* The index of the element that is wrong, counted from 0. */
    uint64_t index;
    /* The message, with the zero byte at its end; cut where it has no room. */
    char text[256];
    /* Zero. */
    uint64_t reserved[4];
} vmalloc_error;

/* ---- The version ---- */

/*
 * Returns the version of the library that the program runs with, as `VMALLOC_VERSION` is that of
 * the header: major x 1,000,000 + minor x 1,000 + patch.
 */
uint32_t vmalloc_version(void);

/* Returns the version of the library as text. It is never freed. */
const char *vmalloc_version_text(void);

/* ---- Options of a space, and requests ---- */

/* Leave guard pages out, in the whole space. */
#define VMALLOC_OPEN_NO_GUARDS 1

/* Cache no memory: a use after free traps once the purge has run. */
#define VMALLOC_OPEN_UNMAP_ON_FREE 2

/* Unmap each area before its free returns: a use after free traps at once. */
#define VMALLOC_OPEN_TRAP_ON_FREE 4

/* Fill freed memory with zeros. */
#define VMALLOC_OPEN_ZERO_ON_FREE 8

/* Have no thread drain the space in the background. */
#define VMALLOC_OPEN_NO_DRAIN_THREAD 16

/* Leave the memory out of core dumps. */
#define VMALLOC_OPEN_DONT_DUMP 32

/* Serve a request by an area of the exact size only, so that the guard is right behind it. */
#define VMALLOC_OPEN_NO_SLACK 64

/* Reserve no addresses for frames. */
#define VMALLOC_OPEN_NO_FRAMES 128

/*
 * Put memory behind new areas of 8 to 1023 pages at once where the last two of their size were
 * filled: a page costs two thirds of a fault then. Memory lies near the CPU that allocates it.
 */
#define VMALLOC_OPEN_POPULATE 256

/*
 * Cache a twelfth of what is in use, as where new memory is cheap, rather than a third of the most
 * that was.
 */
#define VMALLOC_OPEN_CHEAP_MEMORY 512

/* The lowest address that fits. The default. */
#define VMALLOC_POLICY_LOWEST 0

/* The highest address that fits. */
#define VMALLOC_POLICY_HIGHEST 1

/* The fit nearest to a random page, which the seed chooses. */
#define VMALLOC_POLICY_RANDOM 2

/* The fit whose start is nearest to an address, or in a map to a page, which `seed` is. */
#define VMALLOC_POLICY_NEAR 3

/* The best guards that the kernel has. The default. */
#define VMALLOC_GUARDS_BEST 0

/* Marks in page tables (`MADV_GUARD_INSTALL`, Linux 6.13). */
#define VMALLOC_GUARDS_PTE_MARKERS 1

/* mprotect(2). */
#define VMALLOC_GUARDS_MPROTECT 2

/* userfaultfd(2): the cheapest where frees trap at once. */
#define VMALLOC_GUARDS_USERFAULT 3

/* Fill the memory with zeros. */
#define VMALLOC_ZERO 1

/* Leave the guard page out. */
#define VMALLOC_NO_GUARD 2

/* Use huge pages where the area has room for one and the machine has some. */
#define VMALLOC_HUGE 4

/* Fail rather than wait for a purge or call notifiers. */
#define VMALLOC_NO_BLOCK 8

/* Take memory that the node `node` has freed, where there is some. */
#define VMALLOC_ON_NODE 16

/* Place by `policy`, whatever the options of the space say. */
#define VMALLOC_PLACE 32

/* The options of a space. Zero is the default of each. */
typedef struct vmalloc_options {
    /* `sizeof(vmalloc_options)`: `VMALLOC_OPTIONS_INIT` sets it. */
    size_t size;
    /* Addresses to reserve, in bytes: by default a 256th of those that are left, up to 1 TiB.
       Where that is refused, a half, a quarter ... of it, down to 16 MiB. */
    size_t max_bytes;
    /* Addresses for pages that can be mapped several times: by default a 1024th of those that are
       left, up to 64 GiB. */
    size_t frame_bytes;
    /* Memory of freed areas that is cached for reuse. By default a third of the most that was in
       use, within bounds. With `VMALLOC_OPEN_TRAP_ON_FREE`, memory that is kept of freed areas
       behind other addresses, with userfault guards: 64 MiB by default. */
    size_t cache_bytes;
    /* Lazy pages that start a drain: 32 MiB for each bit of the number of CPUs by default. */
    uint64_t lazy_max_pages;
    /* Nodes: one for each CPU by default, and at most 128. */
    size_t nodes;
    /* Slots of a block of short mappings, a power of two from 64 to 1024. */
    uint64_t block_slots;
    /* The seed of `VMALLOC_POLICY_RANDOM`, or the address of `VMALLOC_POLICY_NEAR`. */
    uint64_t seed;
    /* Any of `VMALLOC_OPEN_...`. */
    uint32_t flags;
    /* One of `VMALLOC_POLICY_...`: where areas are placed. */
    uint32_t policy;
    /* One of `VMALLOC_GUARDS_...`. */
    uint32_t guards;
    /* How much larger than a request a cached area may be that serves it, in percent, up to 100.
       See `VMALLOC_OPEN_NO_SLACK` for none. */
    uint32_t max_slack_percent;
    /* The name of the addresses in `/proc/self/maps`, or `NULL`. */
    const char *name;
    /* Addresses to reserve at least, in bytes: fewer are refused. The detail has the largest
       window that there is. */
    size_t min_bytes;
    /* The first address, of a page. Fewer than `max_bytes` are reserved there only if `min_bytes`
       is set. What is mapped there stays, and the reservation is refused. */
    size_t at;
    /* The address that the first one is to be near to. */
    size_t near;
    /* How far from `near` all addresses have to be, in bytes. With 0 any distance will do. */
    size_t within;
    /* The address below which all lie, as high as can be. */
    size_t below;
    /* The alignment of the first address in bytes, a power of two. */
    size_t align;
} vmalloc_options;

#define VMALLOC_OPTIONS_INIT \
    { sizeof(vmalloc_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* A request for memory or addresses. Zero is the default of each field but `bytes`. */
typedef struct vmalloc_request {
    /* `sizeof(vmalloc_request)`: `VMALLOC_REQUEST_INIT` sets it. */
    size_t size;
    /* Bytes asked for, not 0. */
    size_t bytes;
    /* The alignment in bytes, a power of two. Areas always start at a page. */
    size_t align;
    /* The lowest address allowed. Without limits it is 0, and so is `range_end`. */
    size_t range_start;
    /* The address behind the last one allowed, for the guard page too. */
    size_t range_end;
    /* The node of `VMALLOC_ON_NODE`. */
    size_t node;
    /* The seed of `VMALLOC_POLICY_RANDOM`, or the address of `VMALLOC_POLICY_NEAR`. */
    uint64_t seed;
    /* Any of `VMALLOC_ZERO` to `VMALLOC_PLACE`. */
    uint32_t flags;
    /* One of `VMALLOC_POLICY_...`, with the flag `VMALLOC_PLACE`. */
    uint32_t policy;
    /* The name of the owner, for reports, or `NULL`. The first 31 bytes count, which are copied. */
    const char *tag;
    /* A number of the caller's for the area, which `vmalloc_find` tells for each address inside. */
    uint64_t record;
} vmalloc_request;

#define VMALLOC_REQUEST_INIT \
    { sizeof(vmalloc_request), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/*
 * A new size for memory that is there. Everything else stays the memory's: its guard, tag, record,
 * limits, policy and huge pages. Zero is the default of each field but `bytes`.
 */
typedef struct vmalloc_resize {
    /* `sizeof(vmalloc_resize)`: `VMALLOC_RESIZE_INIT` sets it. */
    size_t size;
    /* Bytes asked for, not 0. */
    size_t bytes;
    /* The alignment in bytes, a power of two: memory that starts elsewhere moves. */
    size_t align;
    /* `VMALLOC_ZERO` for zeros in new bytes, `VMALLOC_NO_BLOCK`, or both. */
    uint32_t flags;
    /* Zero. */
    uint32_t reserved;
} vmalloc_resize;

#define VMALLOC_RESIZE_INIT \
    { sizeof(vmalloc_resize), 0, 0, 0, 0 }

/* ---- Spaces ---- */

/*
 * Reserves addresses and opens a space on them. `options` may be `NULL`: all defaults. Memory is
 * taken from the system as areas need it. A thread of the space's own drains in the background,
 * unless the options forbid it. The space may be used before and after `fork`, by parent and
 * child.
 */
struct vmalloc_space *vmalloc_open(const struct vmalloc_options *options,
                                   struct vmalloc_error *detail);

/*
 * Closes a space. All memory and addresses of it end, handed out or not, once the frames,
 * mappings, slots and watches of it have ended too. `NULL` is allowed.
 * Requires: The program uses the handle no more, nor any memory that it allocated there.
 */
void vmalloc_close(struct vmalloc_space *space);

/* Tells the addresses of a space: all its areas lie in `[*start, *end)`. Either may be `NULL`. */
int vmalloc_span(const struct vmalloc_space *space,
                 size_t *start,
                 size_t *end,
                 struct vmalloc_error *detail);

/* Returns the size of a page in bytes, the unit of all areas. */
size_t vmalloc_page_size(void);

/*
 * Returns 1 if an address lies in the space, whatever is there, and 0 if not. A `NULL` space has
 * none.
 */
int vmalloc_contains(const struct vmalloc_space *space, const void *addr);

/*
 * Checks every invariant of a space, which takes as long as it has areas. It answers
 * `VMALLOC_E_DAMAGED` if one does not hold.
 */
int vmalloc_verify(const struct vmalloc_space *space, struct vmalloc_error *detail);

/* ---- Areas: memory and addresses ---- */

/*
 * Allocates memory of at least `bytes` bytes, of any content, with an unmapped guard page behind
 * it. It starts at a page. `vmalloc_free` frees it.
 */
void *vmalloc_alloc(struct vmalloc_space *space, size_t bytes, struct vmalloc_error *detail);

/* Allocates memory of `bytes` bytes that are zero: see `vmalloc_alloc`. */
void *vmalloc_zalloc(struct vmalloc_space *space, size_t bytes, struct vmalloc_error *detail);

/* Allocates memory as a request says. `vmalloc_free` frees it. */
void *vmalloc_alloc_with(struct vmalloc_space *space,
                         const struct vmalloc_request *request,
                         struct vmalloc_error *detail);

/*
 * Frees memory of `vmalloc_alloc`, `vmalloc_zalloc`, `vmalloc_alloc_with`, `vmalloc_alloc_shared`
 * or `vmalloc_alloc_exec`, on any thread. `NULL` is allowed. It answers `-EALREADY` for an area
 * that was freed before, `-EFAULT` for an address in no area, `-EINVAL` for one inside an area,
 * and changes nothing then. Cached pages keep what the program has done to them by system calls
 * (locks, protection, advice): see `vmalloc_free_altered`.
 * Requires: The memory is the caller's, who uses it no more. A free that comes after the addresses
 * were handed out again is not caught: it frees the new owner's area.
 */
int vmalloc_free(struct vmalloc_space *space, void *memory, struct vmalloc_error *detail);

/*
 * Frees memory whose pages the program has locked, protected or advised about. They are never
 * cached, so the next owner gets plain ones.
 * Requires: That of `vmalloc_free`.
 */
int vmalloc_free_altered(struct vmalloc_space *space, void *memory, struct vmalloc_error *detail);

/*
 * Frees memory where the caller may not wait: in a signal handler. It takes no lock that is held,
 * makes no thread, and leaves `errno` alone. It answers `-EAGAIN` if it would have to wait.
 * Requires: That of `vmalloc_free`.
 */
int vmalloc_free_atomic(struct vmalloc_space *space, void *memory, struct vmalloc_error *detail);

/*
 * Reserves addresses without memory, as a request says: for mappings of the program's own, or to
 * be committed in parts. `vmalloc_unreserve` frees them.
 */
void *vmalloc_reserve(struct vmalloc_space *space,
                      const struct vmalloc_request *request,
                      struct vmalloc_error *detail);

/*
 * Frees addresses of `vmalloc_reserve`. Memory that was committed or mapped there ends.
 * Requires: The addresses are the caller's, who uses neither them nor what is mapped there any
 * more.
 */
int vmalloc_unreserve(struct vmalloc_space *space, void *addr, struct vmalloc_error *detail);

/*
 * Allocates `bytes` bytes aligned to `align`, a power of two: from the heap of the C library up to
 * a page, and from the space above that. `vmalloc_free_or_heap` frees it.
 */
void *vmalloc_alloc_or_heap(struct vmalloc_space *space,
                            size_t bytes,
                            size_t align,
                            struct vmalloc_error *detail);

/*
 * Frees memory of `vmalloc_alloc_or_heap`. `NULL` is allowed.
 * Requires: The memory came from that call of this space, with this size and alignment. The caller
 * uses it no more.
 */
int vmalloc_free_or_heap(struct vmalloc_space *space,
                         void *memory,
                         size_t bytes,
                         size_t align,
                         struct vmalloc_error *detail);

/* ---- Another size for an area ---- */

/*
 * Makes memory of `vmalloc_alloc` larger or smaller, and returns where it is now. The content is
 * kept as far as it fits, and so is everything that the request for the memory said. It grows in
 * place where the addresses behind it are free, is copied where freed memory of the new size
 * waits, or its pages move without being copied. `NULL` allocates. A failed call leaves the memory
 * as it was.
 * Requires: The memory is the caller's. If another address is returned, the caller uses the old
 * one no more.
 */
void *vmalloc_realloc(struct vmalloc_space *space,
                      void *memory,
                      size_t bytes,
                      struct vmalloc_error *detail);

/*
 * Makes memory of `vmalloc_alloc` as large and as aligned as `resize` says. With `VMALLOC_ZERO`
 * new bytes are zero, if that flag was in each call for this memory. See `vmalloc_realloc`.
 * Requires: That of `vmalloc_realloc`.
 */
void *vmalloc_realloc_with(struct vmalloc_space *space,
                           void *memory,
                           const struct vmalloc_resize *resize,
                           struct vmalloc_error *detail);

/*
 * Makes memory of `vmalloc_alloc` larger without moving it. It answers `-EEXIST` if the addresses
 * behind it are taken.
 * Requires: The memory is the caller's.
 */
int vmalloc_grow_in_place(struct vmalloc_space *space,
                          void *memory,
                          size_t bytes,
                          struct vmalloc_error *detail);

/*
 * Makes memory of `vmalloc_alloc` smaller without moving it. Pages that it no longer needs are
 * given back at once.
 * Requires: The memory is the caller's, who uses the bytes behind the new size no more.
 */
int vmalloc_shrink_in_place(struct vmalloc_space *space,
                            void *memory,
                            size_t bytes,
                            struct vmalloc_error *detail);

/* ---- Areas found by any address inside ---- */

/* Memory of its own. */
#define VMALLOC_KIND_MEMORY 1

/* Addresses alone. */
#define VMALLOC_KIND_RESERVED 2

/* Frames that the caller has mapped. */
#define VMALLOC_KIND_MAPPING 3

/* Memory of a device. */
#define VMALLOC_KIND_DEVICE 4

/* Memory that can be shown at other addresses as well. */
#define VMALLOC_KIND_SHARED 5

/* Memory for code. */
#define VMALLOC_KIND_EXEC 6

/* One of a group of congruent areas. */
#define VMALLOC_KIND_CONGRUENT 7

/* A block of short mappings. */
#define VMALLOC_KIND_BLOCK 8

/* A short mapping too large for a block. */
#define VMALLOC_KIND_SHORT 9

/* An area in use. */
typedef struct vmalloc_area {
    /* `sizeof(vmalloc_area)`: `VMALLOC_AREA_INIT` sets it. */
    size_t size;
    /* The address of its first byte. */
    size_t addr;
    /* The bytes of its pages. */
    size_t bytes;
    /* Its pages, without the guard. */
    uint64_t pages;
    /* One of `VMALLOC_KIND_...`, or 0 for one that this version does not know. */
    uint32_t kind;
    /* 1 if a guard page is behind it. */
    uint32_t guard;
    /* The name of its owner, or an empty string. */
    char tag[32];
    /* The number that its owner gave it, or 0. */
    uint64_t record;
} vmalloc_area;

#define VMALLOC_AREA_INIT \
    { sizeof(vmalloc_area), 0, 0, 0, 0, 0, { 0 }, 0 }

/*
 * Finds the area that holds `addr`, anywhere inside, and tells it in `*area`. Without a lock as a
 * rule. It answers `-EFAULT` where no area is.
 */
int vmalloc_find(const struct vmalloc_space *space,
                 const void *addr,
                 struct vmalloc_area *area,
                 struct vmalloc_error *detail);

/*
 * Finds the area that holds `addr` without waiting for any lock: also in a signal handler. It
 * leaves `errno` alone. It answers `-EAGAIN` if it would have to wait, and `-EFAULT` where no area
 * is.
 */
int vmalloc_try_find(const struct vmalloc_space *space,
                     const void *addr,
                     struct vmalloc_area *area,
                     struct vmalloc_error *detail);

/*
 * Returns how many bytes of the memory at `memory` can be used: at least as many as were asked
 * for. It is 0 where no area starts.
 */
size_t vmalloc_usable_size(const struct vmalloc_space *space, const void *memory);

/*
 * Gives the area at `memory`, of any kind, the number `record`, as the field of a request does.
 * Requires: The caller owns the area.
 */
int vmalloc_set_record(struct vmalloc_space *space,
                       void *memory,
                       uint64_t record,
                       struct vmalloc_error *detail);

/*
 * Frees an area of any kind that one call frees, and tells in `*area`, which may be `NULL`, what
 * it was.
 * Requires: That of the call which frees areas of its kind.
 */
int vmalloc_remove(struct vmalloc_space *space,
                   void *memory,
                   struct vmalloc_area *area,
                   struct vmalloc_error *detail);

/* ---- Areas in address order ---- */

/*
 * A function that is called for an area. The area is there during the call alone. Another answer
 * than 0 ends the walk.
 */
typedef int (*vmalloc_area_callback)(void *context, const struct vmalloc_area *area);

/*
 * A function that is called with text, which ends with no zero byte. Another answer than 0 ends
 * it.
 */
typedef int (*vmalloc_text_callback)(void *context, const char *text, size_t bytes);

/*
 * Calls `callback` for each area in use from the address `from` on, in address order. Returns 0
 * after the last, or the answer that ended the walk, which should be positive. No lock is held
 * over a callback: areas that come or go meanwhile may be missed or seen.
 */
int vmalloc_walk(const struct vmalloc_space *space,
                 const void *from,
                 vmalloc_area_callback callback,
                 void *context,
                 struct vmalloc_error *detail);

/* Calls `callback` for each area in use whose tag is `tag`, as `vmalloc_walk` does. */
int vmalloc_find_tag(const struct vmalloc_space *space,
                     const char *tag,
                     vmalloc_area_callback callback,
                     void *context,
                     struct vmalloc_error *detail);

/*
 * Calls `callback` with parts of a text about all areas, one line each: addresses, size, owner,
 * kind. The idea is that of `/proc/vmallocinfo`. Returns 0 after the last, or the answer that
 * ended it.
 */
int vmalloc_info(const struct vmalloc_space *space,
                 vmalloc_text_callback callback,
                 void *context,
                 struct vmalloc_error *detail);

/* ---- Counts ---- */

/* Counts of a space: pages unless the name says otherwise. */
typedef struct vmalloc_stats {
    /* `sizeof(vmalloc_stats)`: `VMALLOC_STATS_INIT` sets it. */
    size_t size;
    /* Pages of all addresses: the sum of free, busy, lazy, cached and pooled ones. */
    uint64_t span_pages;
    /* Areas handed out. */
    uint64_t busy_areas;
    /* Pages handed out, guards included. */
    uint64_t busy_pages;
    /* Areas freed and not yet purged. */
    uint64_t lazy_areas;
    /* Pages freed and not yet purged. */
    uint64_t lazy_pages;
    /* Areas among the lazy ones that the system has refused to unmap. */
    uint64_t refused_areas;
    /* Pages of these. */
    uint64_t refused_pages;
    /* Blocks of short mappings that the system has refused to unmap something of. */
    uint64_t refused_blocks;
    /* Parts of areas in use that the system has refused to unmap. */
    uint64_t pending_ranges;
    /* Frees so far that were to trap at once, and became lazy. */
    uint64_t late_frees;
    /* Areas freed that keep their memory. */
    uint64_t cached_areas;
    /* Pages of these. */
    uint64_t cached_pages;
    /* Areas among the cached ones that wait in no node: large ones. */
    uint64_t large_areas;
    /* Pages of these. */
    uint64_t large_pages;
    /* Areas flushed whose addresses wait in a node for reuse. */
    uint64_t pooled_areas;
    /* Pages of these. */
    uint64_t pooled_pages;
    /* Free pages. */
    uint64_t free_pages;
    /* Pages of the largest free range. */
    uint64_t largest_free_pages;
    /* Sets purged so far. */
    uint64_t purges;
    /* Areas purged so far. */
    uint64_t purged_areas;
    /* The most areas that a purge handled under one hold of a lock. */
    uint64_t longest_hold_areas;
    /* Blocks of short mappings. */
    uint64_t blocks;
    /* Blocks made so far. */
    uint64_t blocks_made;
    /* Blocks given up so far. */
    uint64_t blocks_freed;
    /* Bytes of metadata. */
    uint64_t metadata_bytes;
    /* Bytes of a page. */
    uint64_t page_bytes;
} vmalloc_stats;

#define VMALLOC_STATS_INIT \
    { sizeof(vmalloc_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Counts of one node: pages unless the name says otherwise. */
typedef struct vmalloc_node_stats {
    /* `sizeof(vmalloc_node_stats)`: `VMALLOC_NODE_STATS_INIT` sets it. */
    size_t size;
    /* Areas freed on it and not purged yet. */
    uint64_t lazy_areas;
    /* Areas freed on it that keep their memory. */
    uint64_t cached_areas;
    /* Pages of these. */
    uint64_t cached_pages;
    /* Areas whose addresses wait in it. */
    uint64_t pooled_areas;
    /* Pages of these. */
    uint64_t pooled_pages;
} vmalloc_node_stats;

#define VMALLOC_NODE_STATS_INIT \
    { sizeof(vmalloc_node_stats), 0, 0, 0, 0, 0 }

/* Tells the counts of a space. Each is right for some moment during the call. */
int vmalloc_get_stats(const struct vmalloc_space *space,
                      struct vmalloc_stats *stats,
                      struct vmalloc_error *detail);

/* Returns how many nodes a space has, and 0 for `NULL`. */
size_t vmalloc_node_count(const struct vmalloc_space *space);

/* Tells the counts of the node `node`, counted from 0. */
int vmalloc_get_node_stats(const struct vmalloc_space *space,
                           size_t node,
                           struct vmalloc_node_stats *stats,
                           struct vmalloc_error *detail);

/* ---- Freed areas given back ---- */

/*
 * Gives everything that was freed back to the system and to the free addresses, with one flush.
 * On return no CPU reaches anything that was freed before the call.
 */
int vmalloc_purge(struct vmalloc_space *space, struct vmalloc_error *detail);

/* Unmaps everything that was freed. On return no CPU reaches it. Its addresses may wait for reuse. */
int vmalloc_flush(struct vmalloc_space *space, struct vmalloc_error *detail);

/*
 * Gives back a quarter of the areas that wait for reuse, but none that was needed since the last
 * decay, and unmaps everything lazy. Repeated, it gives everything back.
 */
int vmalloc_decay(struct vmalloc_space *space, struct vmalloc_error *detail);

/*
 * Drains as the thread of the space does, for programs that forbid that thread: above the
 * threshold it purges, else it decays. Returns 1 if there is a reason to call again, and 0 if not.
 */
int vmalloc_drain(struct vmalloc_space *space, struct vmalloc_error *detail);

/*
 * Gives back up to `areas` areas that wait for reuse, those with memory first. `*evicted`, which
 * may be `NULL`, becomes their number.
 */
int vmalloc_shrink(struct vmalloc_space *space,
                   uint64_t areas,
                   uint64_t *evicted,
                   struct vmalloc_error *detail);

/* Returns how many areas `vmalloc_shrink` could give back now, and 0 for `NULL`. */
uint64_t vmalloc_shrinkable(const struct vmalloc_space *space);

/* ---- Memory read without faults ---- */

/*
 * Copies `count` bytes at `addr` to `buffer`: mapped memory of areas, and zeros for the rest. It
 * never faults, whatever is freed meanwhile. `*copied`, which may be `NULL`, becomes the number of
 * bytes that were mapped.
 * Requires: `buffer` has room for `count` bytes.
 */
int vmalloc_read(const struct vmalloc_space *space,
                 const void *addr,
                 void *buffer,
                 size_t count,
                 size_t *copied,
                 struct vmalloc_error *detail);

/*
 * Tells the number of the physical page behind `addr`, which the kernel shows to privileged
 * programs only. It answers `-ENOENT` where it is not told.
 */
int vmalloc_physical_page(const struct vmalloc_space *space,
                          const void *addr,
                          uint64_t *page,
                          struct vmalloc_error *detail);

/* ---- Memory at chosen addresses inside an area ---- */

/* A range of addresses. */
typedef struct vmalloc_range {
    /* The first address. */
    void *start;
    /* Bytes from there on. */
    size_t bytes;
} vmalloc_range;

/*
 * Puts memory behind ranges of whole pages in areas of `vmalloc_reserve`, all or none, in any
 * order. New memory reads as zero.
 * Requires: The areas are the caller's. None of the pages is committed or mapped, and no other
 * thread commits or decommits them meanwhile.
 */
int vmalloc_commit(struct vmalloc_space *space,
                   const struct vmalloc_range *ranges,
                   size_t count,
                   struct vmalloc_error *detail);

/*
 * Takes the memory behind ranges of areas of `vmalloc_reserve` away, committed or not. On return
 * an access traps.
 * Requires: The areas are the caller's, who uses the ranges no more, and none of the pages shows
 * frames (`vmalloc_unmap_pages` is for those). No other thread commits or decommits them
 * meanwhile.
 */
int vmalloc_decommit(struct vmalloc_space *space,
                     const struct vmalloc_range *ranges,
                     size_t count,
                     struct vmalloc_error *detail);

/*
 * Makes ranges read as zero, and gives their memory back to the system: committed ones, or memory
 * of `vmalloc_alloc`. They stay usable.
 * Requires: The areas are the caller's, who needs the content no more and does not use it
 * meanwhile. The pages are committed, or memory of `vmalloc_alloc`: none shows frames.
 */
int vmalloc_discard(struct vmalloc_space *space,
                    const struct vmalloc_range *ranges,
                    size_t count,
                    struct vmalloc_error *detail);

/*
 * Makes committed ranges read as zero, in the way that costs least if they are used again: small
 * ones are filled with zeros, large ones are discarded.
 * Requires: That of `vmalloc_discard`.
 */
int vmalloc_reset(struct vmalloc_space *space,
                  const struct vmalloc_range *ranges,
                  size_t count,
                  struct vmalloc_error *detail);

/* ---- Memory for code, and protection ---- */

/* Memory that may be read and written. */
#define VMALLOC_READ_WRITE 0

/* Memory that may be read. */
#define VMALLOC_READ 1

/* Memory that may be read and executed. */
#define VMALLOC_READ_EXECUTE 2

/*
 * Allocates zeroed memory that is writable at first, and can be made executable. It is never
 * cached. `vmalloc_free` frees it.
 */
void *vmalloc_alloc_exec(struct vmalloc_space *space,
                         const struct vmalloc_request *request,
                         struct vmalloc_error *detail);

/*
 * Changes what may be done with an area of `vmalloc_alloc_exec` or `vmalloc_map_frames`:
 * `VMALLOC_READ_WRITE`, `VMALLOC_READ` or `VMALLOC_READ_EXECUTE`. On return it holds for every
 * CPU.
 * Requires: The area is the caller's. The program does nothing with it that is not allowed any
 * more. Bytes that are made executable are code for this machine.
 */
int vmalloc_protect(struct vmalloc_space *space,
                    void *memory,
                    uint32_t protection,
                    struct vmalloc_error *detail);

/* ---- Frames: pages that can be mapped at several addresses ---- */

/* Takes `count` frames of any content, all or none. */
struct vmalloc_frames *vmalloc_frames_take(struct vmalloc_space *space,
                                           size_t count,
                                           struct vmalloc_error *detail);

/*
 * Takes `count` consecutive frames, the first at a multiple of `align`, a power of two. They can
 * be mapped for a short while at no cost.
 */
struct vmalloc_frames *vmalloc_frames_take_run(struct vmalloc_space *space,
                                               size_t count,
                                               uint64_t align,
                                               struct vmalloc_error *detail);

/*
 * Gives the handle of frames up. They go back when the last mapping of them has ended. `NULL` is
 * allowed.
 * Requires: The program uses the handle no more, nor frames by their numbers that it has mapped.
 */
void vmalloc_frames_free(struct vmalloc_frames *frames);

/* Returns how many frames there are, and 0 for `NULL`. */
size_t vmalloc_frames_count(const struct vmalloc_frames *frames);

/*
 * Returns the numbers of the frames, in the order in which they are mapped. They are there until
 * the handle ends. `NULL` for `NULL`.
 */
const uint64_t *vmalloc_frames_numbers(const struct vmalloc_frames *frames);

/*
 * Changes the order of two frames, for mappings that are made from now on.
 * Requires: No other thread uses the handle meanwhile.
 */
int vmalloc_frames_swap(struct vmalloc_frames *frames,
                        size_t one,
                        size_t other,
                        struct vmalloc_error *detail);

/* ---- Mappings of frames ---- */

/* Map the frames for reading alone. */
#define VMALLOC_MAP_READ_ONLY 1

/* Map the frames for a short while: cheap, writable, and without a guard page. */
#define VMALLOC_MAP_SHORT 2

/*
 * Maps all frames, in their order, to consecutive pages. Without flags the mapping is writable and
 * a guard page follows.
 */
struct vmalloc_mapping *vmalloc_mapping_new(const struct vmalloc_frames *frames,
                                            uint32_t flags,
                                            struct vmalloc_error *detail);

/* Returns the address of the first byte, or `NULL` for `NULL`. */
void *vmalloc_mapping_addr(const struct vmalloc_mapping *mapping);

/* Returns the bytes that a mapping shows, and 0 for `NULL`. */
size_t vmalloc_mapping_size(const struct vmalloc_mapping *mapping);

/*
 * Ends a mapping. Its addresses are flushed before they are handed out again. `NULL` is allowed.
 * Requires: The program uses the handle and its addresses no more.
 */
void vmalloc_mapping_free(struct vmalloc_mapping *mapping);

/* ---- Mappings by numbers of frames, and shared memory ---- */

/*
 * Maps frames by their numbers, in this order, to consecutive pages with a guard page behind them.
 * A frame may be among them twice. `protection` is one of `VMALLOC_READ_WRITE`, `VMALLOC_READ` and
 * `VMALLOC_READ_EXECUTE`; `tag` may be `NULL`. `vmalloc_unmap` ends it.
 * Requires: The frames stay taken until the mapping has ended.
 */
void *vmalloc_map_frames(struct vmalloc_space *space,
                         const uint64_t *numbers,
                         size_t count,
                         uint32_t protection,
                         const char *tag,
                         struct vmalloc_error *detail);

/*
 * Ends a mapping of `vmalloc_map_frames` or `vmalloc_map_shared`.
 * Requires: The mapping is the caller's, who uses its addresses no more.
 */
int vmalloc_unmap(struct vmalloc_space *space, void *addr, struct vmalloc_error *detail);

/*
 * Maps frames by their numbers for a short while, writable and without a guard page, at little
 * cost. `vmalloc_unmap_short` ends it, on any thread.
 * Requires: The frames stay taken until the mapping has ended.
 */
void *vmalloc_map_short(struct vmalloc_space *space,
                        const uint64_t *numbers,
                        size_t count,
                        struct vmalloc_error *detail);

/*
 * Ends a short mapping of `count` frames. It answers `-EINVAL` for another count.
 * Requires: The mapping is the caller's, who uses its addresses no more.
 */
int vmalloc_unmap_short(struct vmalloc_space *space,
                        void *addr,
                        size_t count,
                        struct vmalloc_error *detail);

/*
 * Allocates zeroed memory that can be shown at other addresses as well, by `vmalloc_map_shared`.
 * `vmalloc_free` frees it. After a `fork` parent and child see each other's writes.
 */
void *vmalloc_alloc_shared(struct vmalloc_space *space,
                           const struct vmalloc_request *request,
                           struct vmalloc_error *detail);

/*
 * Shows `bytes` bytes at `memory`, whole pages inside an area of `vmalloc_alloc_shared`, at
 * another address as well. `vmalloc_unmap` ends that.
 */
void *vmalloc_map_shared(struct vmalloc_space *space,
                         const void *memory,
                         size_t bytes,
                         uint32_t protection,
                         const char *tag,
                         struct vmalloc_error *detail);

/* ---- Frames in reserved areas, page by page ---- */

/*
 * Maps frames by their numbers into a reserved or congruent area, from `addr` on. Pages
 * that show frames already are refused.
 * Requires: The frames stay taken until they are unmapped. None of the pages is committed. No
 * other thread maps, unmaps or frees them meanwhile.
 */
int vmalloc_map_pages(struct vmalloc_space *space,
                      void *addr,
                      const uint64_t *numbers,
                      size_t count,
                      uint32_t protection,
                      struct vmalloc_error *detail);

/*
 * Unmaps `pages` pages of a reserved or congruent area, from `addr` on, all of which show
 * frames. On return no CPU reaches the frames through them.
 * Requires: The program uses the frames through these pages no more. No other thread maps, unmaps
 * or frees them meanwhile.
 */
int vmalloc_unmap_pages(struct vmalloc_space *space,
                        void *addr,
                        uint64_t pages,
                        struct vmalloc_error *detail);

/* ---- Congruent areas: at the same distances from one base ---- */

/*
 * Reserves `count` areas of `sizes[i]` bytes at `base + offsets[i]`, all or none, and tells the
 * base, a multiple of `align`. They have no memory: see `vmalloc_map_pages`. The base may be
 * outside of the space, and even `NULL`.
 */
int vmalloc_alloc_congruent(struct vmalloc_space *space,
                            const size_t *offsets,
                            const size_t *sizes,
                            size_t count,
                            size_t align,
                            void **base,
                            struct vmalloc_error *detail);

/*
 * Frees the areas of `vmalloc_alloc_congruent`, with the same base, offsets and sizes, in any
 * order.
 * Requires: The areas are the caller's, who uses nothing any more that is mapped there.
 */
int vmalloc_free_congruent(struct vmalloc_space *space,
                           void *base,
                           const size_t *offsets,
                           const size_t *sizes,
                           size_t count,
                           struct vmalloc_error *detail);

/* ---- Notifiers ---- */

/*
 * A function that is called when addresses or memory for `bytes` bytes are short. It may allocate
 * and free. It returns how many bytes it has freed, and 0 if none. It may run on several threads
 * at once.
 */
typedef uint64_t (*vmalloc_notifier_callback)(void *context, uint64_t bytes);

/*
 * A function that is called once, when a context is used no more: on the thread that ends the
 * notifier, or on one that is just leaving the callback.
 */
typedef void (*vmalloc_notifier_release)(void *context);

/*
 * Has `callback` called before an allocation of the space fails for want of addresses or memory.
 * It is asked again as long as it frees anything. `release` may be `NULL`. If this fails,
 * `release` is not called.
 * Requires: Both functions may be called with `context` on any thread, until `release` is called.
 * The callback does not end its own notifier.
 */
struct vmalloc_notifier *vmalloc_notifier_new(struct vmalloc_space *space,
                                              vmalloc_notifier_callback callback,
                                              void *context,
                                              vmalloc_notifier_release release,
                                              struct vmalloc_error *detail);

/*
 * Ends a notifier. A callback that runs on another thread at this moment goes on, and `release` is
 * called behind it. `NULL` is allowed.
 * Requires: The program uses the handle no more.
 */
void vmalloc_notifier_free(struct vmalloc_notifier *notifier);

/* ---- Roots and sub-spaces ---- */

/* Put the sub-space at the highest free addresses, not the lowest. */
#define VMALLOC_PLACE_HIGHEST 1

/* Put the sub-space at `start` exactly. */
#define VMALLOC_PLACE_AT 2

/* Put the sub-space as near to `start` as can be. */
#define VMALLOC_PLACE_NEAR 4

/* The sub-space lives. */
#define VMALLOC_SUBSPACE_LIVE 0

/* A thread is making the sub-space, or reclaiming its addresses. */
#define VMALLOC_SUBSPACE_CHANGING 1

/* The sub-space was closed, and the system has refused to unmap its memory so far. */
#define VMALLOC_SUBSPACE_LINGERING 2

/* Where a sub-space is put, and how much it may use. */
typedef struct vmalloc_placement {
    /* `sizeof(vmalloc_placement)`: `VMALLOC_PLACEMENT_INIT` sets it. */
    size_t size;
    /* Bytes of addresses, rounded up to pages. */
    size_t bytes;
    /* The alignment in bytes, a power of two, or 0. */
    size_t align;
    /* The first address, of a page, with `VMALLOC_PLACE_AT`, or any address with
       `VMALLOC_PLACE_NEAR`. */
    size_t start;
    /* The most memory that may be mapped at once, cached memory included. 0 is no limit. */
    size_t limit_bytes;
    /* Any of `VMALLOC_PLACE_...`. */
    uint32_t flags;
    /* Zero. */
    uint32_t reserved;
    /* The lowest address allowed, but with `VMALLOC_PLACE_AT`. Without limits it is 0, and so is
       `range_end`. */
    size_t range_start;
    /* The address behind the last one allowed. */
    size_t range_end;
} vmalloc_placement;

#define VMALLOC_PLACEMENT_INIT \
    { sizeof(vmalloc_placement), 0, 0, 0, 0, 0, 0, 0, 0 }

/* A sub-space, as its root knows it. */
typedef struct vmalloc_subspace_info {
    /* Its size in bytes, as the library has it. */
    size_t size;
    /* Its name, which is never freed. */
    const char *name;
    /* Its first address. */
    size_t start;
    /* The address behind its last. */
    size_t end;
    /* The most memory that may be mapped in it, or 0. */
    size_t limit_bytes;
    /* Memory that is mapped in it, or not flushed yet. */
    size_t used_bytes;
    /* One of `VMALLOC_SUBSPACE_...`. */
    uint32_t state;
    /* Zero. */
    uint32_t reserved;
} vmalloc_subspace_info;

#define VMALLOC_SUBSPACE_INFO_INIT \
    { sizeof(vmalloc_subspace_info), 0, 0, 0, 0, 0, 0, 0 }

/* A function that is called for a sub-space. Another answer than 0 ends the walk. */
typedef int (*vmalloc_subspace_callback)(void *context, const struct vmalloc_subspace_info *info);

/*
 * Reserves addresses that are divided among sub-spaces. `options` may be `NULL`. Of those that
 * concern a space only `VMALLOC_OPEN_TRAP_ON_FREE` has an effect, with `cache_bytes`: guards are
 * chosen that suit sub-spaces with that flag. Each sub-space has options of its own.
 */
struct vmalloc_root *vmalloc_root_open(const struct vmalloc_options *options,
                                       struct vmalloc_error *detail);

/*
 * Gives the handle of a root up. Its sub-spaces live on. `NULL` is allowed.
 * Requires: The program uses the handle no more.
 */
void vmalloc_root_close(struct vmalloc_root *root);

/*
 * Makes a sub-space: a space like any other, on a part of the addresses that is its own until
 * `vmalloc_close`. `name`, of which no two have the same, is copied and never freed. `options` may
 * be `NULL`, and leaves the settings of a reservation out. No thread drains a sub-space in the
 * background: see `vmalloc_drain`.
 */
struct vmalloc_space *vmalloc_subspace_open(struct vmalloc_root *root,
                                            const char *name,
                                            const struct vmalloc_placement *placement,
                                            const struct vmalloc_options *options,
                                            struct vmalloc_error *detail);

/* Tells the addresses of a root. Either may be `NULL`. */
int vmalloc_root_span(const struct vmalloc_root *root,
                      size_t *start,
                      size_t *end,
                      struct vmalloc_error *detail);

/*
 * Calls `callback` for each sub-space, in address order. Returns 0 after the last, or the answer
 * that ended the walk.
 */
int vmalloc_root_walk(const struct vmalloc_root *root,
                      vmalloc_subspace_callback callback,
                      void *context,
                      struct vmalloc_error *detail);

/* ---- Slots ---- */

/* Memory beyond the head stays committed when a slot is freed. */
#define VMALLOC_SLOTS_COMMIT_BEYOND_HEAD 1

/* Commit no head. */
#define VMALLOC_SLOTS_NO_HEAD 2

/* Have no guards in front of slots and behind them. */
#define VMALLOC_SLOTS_NO_GUARDS 4

/* Keep no memory of a slot that was freed. */
#define VMALLOC_SLOTS_KEEP_NOTHING 8

/* The options of a pool of slots. Zero is the default of each but `slot_bytes`. */
typedef struct vmalloc_slots_options {
    /* `sizeof(vmalloc_slots_options)`: `VMALLOC_SLOTS_OPTIONS_INIT` sets it. */
    size_t size;
    /* Bytes of a slot: how far it can grow. Not 0. */
    size_t slot_bytes;
    /* Bytes that are memory when a slot is handed out: 64 KiB by default. */
    size_t head_bytes;
    /* Bytes in front of a slot that trap: a page by default. */
    size_t guard_before_bytes;
    /* Bytes behind a slot that trap: a page by default. */
    size_t guard_after_bytes;
    /* The most slots at once: 65,536 by default. */
    size_t max_slots;
    /* Memory that one free slot may keep: 1 MiB by default. */
    size_t keep_bytes;
    /* Memory that all free slots may keep: 64 MiB by default. As much again may wait to be reset. */
    size_t resident_bytes;
    /* Any of `VMALLOC_SLOTS_...`. */
    uint32_t flags;
    /* Zero. */
    uint32_t reserved;
} vmalloc_slots_options;

#define VMALLOC_SLOTS_OPTIONS_INIT \
    { sizeof(vmalloc_slots_options), 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Bytes of a slot, counted from its start. */
typedef struct vmalloc_slot_bytes {
    /* The first byte. */
    size_t start;
    /* The byte behind the last. */
    size_t end;
} vmalloc_slot_bytes;

/* Counts of a pool of slots. */
typedef struct vmalloc_slots_stats {
    /* `sizeof(vmalloc_slots_stats)`: `VMALLOC_SLOTS_STATS_INIT` sets it. */
    size_t size;
    /* Slots that have addresses: in use, free or waiting. */
    uint64_t reserved;
    /* Slots that are zero and free. */
    uint64_t free;
    /* Slots that wait to be reset. */
    uint64_t waiting;
    /* Bytes of memory that free slots keep. */
    uint64_t kept_bytes;
    /* Bytes of memory that waiting slots have. */
    uint64_t waiting_bytes;
    /* Batches so far. */
    uint64_t batches;
    /* Slots that were reset in batches so far. */
    uint64_t reset_in_batches;
} vmalloc_slots_stats;

#define VMALLOC_SLOTS_STATS_INIT \
    { sizeof(vmalloc_slots_stats), 0, 0, 0, 0, 0, 0, 0 }

/* Makes a pool of slots on a space, which it keeps. */
struct vmalloc_slots *vmalloc_slots_new(struct vmalloc_space *space,
                                        const struct vmalloc_slots_options *options,
                                        struct vmalloc_error *detail);

/*
 * Gives the handle of a pool up. The pool ends with its last slot. `NULL` is allowed.
 * Requires: The program uses the handle no more.
 */
void vmalloc_slots_free(struct vmalloc_slots *slots);

/* Allocates a slot. Its head reads as zero, and what is not committed traps. */
struct vmalloc_slot *vmalloc_slot_alloc(struct vmalloc_slots *slots, struct vmalloc_error *detail);

/*
 * Allocates a slot for a user, by a number of the program's: preferably one that this user freed
 * lately.
 */
struct vmalloc_slot *vmalloc_slot_alloc_for(struct vmalloc_slots *slots,
                                            uint64_t user,
                                            struct vmalloc_error *detail);

/* Returns the address of the first byte of a slot, which never changes. `NULL` for `NULL`. */
void *vmalloc_slot_addr(const struct vmalloc_slot *slot);

/* Returns how far a slot can grow, in bytes, and 0 for `NULL`. */
size_t vmalloc_slot_size(const struct vmalloc_slot *slot);

/* Returns how many bytes from the start of a slot are memory, and 0 for `NULL`. */
size_t vmalloc_slot_committed(const struct vmalloc_slot *slot);

/*
 * Commits all pages of a slot up to byte `bytes`, which read as zero.
 * Requires: No other thread uses the handle meanwhile.
 */
int vmalloc_slot_grow(struct vmalloc_slot *slot, size_t bytes, struct vmalloc_error *detail);

/*
 * Makes all of a slot that is committed read as zero, at once. It stays as large as it has grown.
 * `dirty` has the bytes that may not be zero: `NULL` and 0 are all, and an array of none is
 * nothing.
 * Requires: No thread uses the slot meanwhile, and all bytes of it that are not zero are in
 * `dirty`.
 */
int vmalloc_slot_reset(struct vmalloc_slot *slot,
                       const struct vmalloc_slot_bytes *dirty,
                       size_t count,
                       struct vmalloc_error *detail);

/*
 * Frees a slot, on any thread. `dirty` is as for `vmalloc_slot_reset`. A `NULL` slot is allowed.
 * If the call fails, the slot is the caller's still.
 * Requires: The program uses the handle and the slot no more, and all bytes of it that are not
 * zero are in `dirty`: the next owner is promised zeros. The handle has been freed before by no
 * call.
 */
int vmalloc_slot_free(struct vmalloc_slot *slot,
                      const struct vmalloc_slot_bytes *dirty,
                      size_t count,
                      struct vmalloc_error *detail);

/* Resets all slots that wait for a batch. */
int vmalloc_slots_flush(struct vmalloc_slots *slots, struct vmalloc_error *detail);

/* Gives the free slots beyond `keep` back to the space. */
int vmalloc_slots_trim(struct vmalloc_slots *slots, size_t keep, struct vmalloc_error *detail);

/* Tells the counts of a pool of slots. */
int vmalloc_slots_get_stats(const struct vmalloc_slots *slots,
                            struct vmalloc_slots_stats *stats,
                            struct vmalloc_error *detail);

/* ---- Stacks ---- */

/* Have no thread that gives the memory of unused stacks back. */
#define VMALLOC_STACKS_NO_THREADS 1

/* Keep no memory of a stack that was dropped. */
#define VMALLOC_STACKS_KEEP_NOTHING 2

/* The options of a pool of stacks. Zero is the default of each. */
typedef struct vmalloc_stacks_options {
    /* `sizeof(vmalloc_stacks_options)`: `VMALLOC_STACKS_OPTIONS_INIT` sets it. */
    size_t size;
    /* Bytes of a stack: 1 MiB by default. */
    size_t stack_bytes;
    /* Memory that a dropped stack keeps, from its top on: 16 KiB by default. */
    size_t keep_bytes;
    /* Memory that all dropped stacks may keep: 64 MiB by default. */
    size_t warm_bytes;
    /* Addresses that the pool reserves: 16 TiB by default. */
    size_t span_bytes;
    /* The alignment of the bottom of each stack, a power of two. */
    size_t align;
    /* Any of `VMALLOC_STACKS_...`. */
    uint32_t flags;
    /* Zero. */
    uint32_t reserved;
    /* The name of the pool in reports, or `NULL`. The first 31 bytes count. */
    const char *name;
} vmalloc_stacks_options;

#define VMALLOC_STACKS_OPTIONS_INIT \
    { sizeof(vmalloc_stacks_options), 0, 0, 0, 0, 0, 0, 0, 0 }

/* A stack. The struct is the program's, which neither copies it nor changes a field. */
typedef struct vmalloc_stack {
    /* The lowest byte. A guard page is below it, which an overflow hits. */
    void *bottom;
    /* The address behind the highest byte, where an empty stack begins. A guard page is there too. */
    void *top;
    /* Bytes from bottom to top. */
    size_t bytes;
    /* The library's own. */
    size_t own[5];
} vmalloc_stack;

/* Reserves addresses and opens a pool of stacks on them. `options` may be `NULL`. */
struct vmalloc_stacks *vmalloc_stacks_open(const struct vmalloc_stacks_options *options,
                                           struct vmalloc_error *detail);

/*
 * Gives the handle of a pool up. Its stacks live on, and the pool ends with the last of them.
 * `NULL` is allowed.
 * Requires: The program uses the handle no more.
 */
void vmalloc_stacks_close(struct vmalloc_stacks *stacks);

/*
 * Makes a stack of `bytes` bytes, or of the pool's size for 0, and fills `*stack`. One of the
 * pool's size takes no system call when a dropped one waits. A `name` for reports, which may be
 * `NULL`, takes a microsecond. A failed call leaves `*stack` as it was.
 * Requires: `*stack` is not a stack that was made and not dropped: that would be lost.
 */
int vmalloc_stack_make(struct vmalloc_stacks *stacks,
                       size_t bytes,
                       const char *name,
                       struct vmalloc_stack *stack,
                       struct vmalloc_error *detail);

/*
 * Drops a stack, on any thread: it waits for its next user. `*stack` is cleared, so a second drop
 * of the struct answers `-EALREADY`, as one of a zeroed struct does.
 * Requires: `*stack` was filled by `vmalloc_stack_make` or is zero, and is no copy. Nothing runs
 * on the stack or needs what it holds.
 */
int vmalloc_stack_drop(struct vmalloc_stack *stack, struct vmalloc_error *detail);

/* Gives the memory of unused stacks back, but for the part that each keeps. */
int vmalloc_stacks_trim(struct vmalloc_stacks *stacks, struct vmalloc_error *detail);

/* Gives all memory of unused stacks back, and their addresses. */
int vmalloc_stacks_clear(struct vmalloc_stacks *stacks, struct vmalloc_error *detail);

/* Returns the bytes of a stack of the pool's size, and 0 for `NULL`. */
size_t vmalloc_stacks_stack_bytes(const struct vmalloc_stacks *stacks);

/*
 * Tells the counts of the space that the stacks lie in. Unused stacks that wait on the CPUs count
 * as busy areas there.
 */
int vmalloc_stacks_get_stats(const struct vmalloc_stacks *stacks,
                             struct vmalloc_stats *stats,
                             struct vmalloc_error *detail);

/*
 * Has a line written to the standard error for each overflow of a stack of any pool, before the
 * program ends of it. Handlers of `SIGSEGV` and `SIGBUS` that were there before run afterwards. A
 * thread needs an alternate stack for that: see `vmalloc_alt_stack_install`.
 */
int vmalloc_stacks_report_overflows(struct vmalloc_error *detail);

/* Gives the calling thread an alternate stack of the pool, if it has none. */
struct vmalloc_alt_stack *vmalloc_alt_stack_install(struct vmalloc_stacks *stacks,
                                                    struct vmalloc_error *detail);

/*
 * Takes the alternate stack down. `NULL` is allowed.
 * Requires: The thread that installed it calls this, once, and not in a handler that runs on it.
 */
void vmalloc_alt_stack_free(struct vmalloc_alt_stack *stack);

/* ---- Stacks that grow ---- */

/*
 * Makes a stack that begins with `first` bytes of memory and can grow to `most`. With `first` 0 it
 * has none before the first `vmalloc_growable_grow`. `name` may be `NULL`.
 */
struct vmalloc_growable *vmalloc_growable_new(struct vmalloc_stacks *stacks,
                                              size_t first,
                                              size_t most,
                                              const char *name,
                                              struct vmalloc_error *detail);

/*
 * Ends a growable stack. `NULL` is allowed.
 * Requires: The program uses the handle no more, and nothing runs on the stack.
 */
void vmalloc_growable_free(struct vmalloc_growable *stack);

/* Returns the address behind the highest byte, or `NULL` for `NULL`. */
void *vmalloc_growable_top(const struct vmalloc_growable *stack);

/* Returns how many bytes below the top are memory, and 0 for `NULL`. */
size_t vmalloc_growable_size(const struct vmalloc_growable *stack);

/*
 * Grows a stack to `bytes`, rounded up to pages: also the code that runs on it may call this. It
 * changes nothing if the stack has as much. It answers `-EBUSY` if another thread grows it at this
 * moment.
 */
int vmalloc_growable_grow(struct vmalloc_growable *stack,
                          size_t bytes,
                          struct vmalloc_error *detail);

/*
 * Takes the memory below the top `bytes`, rounded up to pages, away. An access there traps.
 * Requires: Nothing on the stack below that is needed, and no other thread uses the handle
 * meanwhile.
 */
int vmalloc_growable_shrink(struct vmalloc_growable *stack,
                            size_t bytes,
                            struct vmalloc_error *detail);

/* ---- Reports on traps ---- */

/*
 * Has traps at addresses of the space reported on the standard error: which area or guard it was,
 * and with `VMALLOC_OPEN_TRAP_ON_FREE` which thread freed it when. It handles `SIGSEGV` and
 * `SIGBUS`, and calls the handlers that were there before.
 */
struct vmalloc_watch *vmalloc_watch_new(struct vmalloc_space *space, struct vmalloc_error *detail);

/*
 * Ends a watch. `NULL` is allowed.
 * Requires: The program uses the handle no more.
 */
void vmalloc_watch_free(struct vmalloc_watch *watch);

/* ---- The address map alone ---- */

/* A free range. */
#define VMALLOC_SEGMENT_FREE 0

/* An area that was handed out. */
#define VMALLOC_SEGMENT_BUSY 1

/* An area that was freed and waits. */
#define VMALLOC_SEGMENT_RETIRED 2

/* A request for numbers of a map. Zero is the default of each field but `pages`. */
typedef struct vmalloc_fit {
    /* `sizeof(vmalloc_fit)`: `VMALLOC_FIT_INIT` sets it. */
    size_t size;
    /* Pages asked for, not 0. */
    uint64_t pages;
    /* The start is a multiple of this, a power of two. */
    uint64_t align;
    /* The first page allowed. */
    uint64_t start;
    /* The page behind the last one allowed. Without limits both are 0. */
    uint64_t end;
    /* The seed of `VMALLOC_POLICY_RANDOM`, or the page of `VMALLOC_POLICY_NEAR`. */
    uint64_t seed;
    /* One of `VMALLOC_POLICY_...`. */
    uint32_t policy;
    /* Zero. */
    uint32_t reserved;
} vmalloc_fit;

#define VMALLOC_FIT_INIT \
    { sizeof(vmalloc_fit), 0, 0, 0, 0, 0, 0, 0 }

/* A run of pages of a map in one state. Segments follow each other without gaps. */
typedef struct vmalloc_segment {
    /* `sizeof(vmalloc_segment)`: `VMALLOC_SEGMENT_INIT` sets it. */
    size_t size;
    /* The first page. */
    uint64_t start;
    /* The page behind the last. */
    uint64_t end;
    /* One of `VMALLOC_SEGMENT_...`. */
    uint32_t state;
    /* Zero. */
    uint32_t reserved;
} vmalloc_segment;

#define VMALLOC_SEGMENT_INIT \
    { sizeof(vmalloc_segment), 0, 0, 0, 0 }

/* A function that is called for a segment. Another answer than 0 ends the walk. */
typedef int (*vmalloc_segment_callback)(void *context, const struct vmalloc_segment *segment);

/* Makes a map of the pages `[start, end)`, all free, with its records on the heap. */
struct vmalloc_map *vmalloc_map_new(uint64_t start, uint64_t end, struct vmalloc_error *detail);

/*
 * Makes a map of the pages `[start, end)` in memory of the program's: handle and records. It works
 * without a heap. It takes 16 KiB, and 350 bytes for each 256 aligned pages in which segments
 * start. When the memory is used up, calls answer `VMALLOC_E_METADATA`.
 * Requires: The memory has `bytes` bytes, and is the map's alone until `vmalloc_map_free`.
 */
struct vmalloc_map *vmalloc_map_new_in(void *memory,
                                       size_t bytes,
                                       uint64_t start,
                                       uint64_t end,
                                       struct vmalloc_error *detail);

/* Makes a copy of a map, with its records on the heap. */
struct vmalloc_map *vmalloc_map_copy(const struct vmalloc_map *map, struct vmalloc_error *detail);

/*
 * Ends a map. Memory that it was made in is the program's again. `NULL` is allowed.
 * Requires: The program uses the handle no more.
 */
void vmalloc_map_free(struct vmalloc_map *map);

/*
 * Hands out pages as `fit` says, and tells the first. O(log n), and exact: what fits is found.
 * Requires: No other thread uses the map meanwhile.
 */
int vmalloc_map_alloc(struct vmalloc_map *map,
                      const struct vmalloc_fit *fit,
                      uint64_t *start,
                      struct vmalloc_error *detail);

/*
 * Hands out exactly the pages `[start, end)`. It answers `-EEXIST` if they are not all free.
 * Requires: No other thread uses the map meanwhile.
 */
int vmalloc_map_alloc_at(struct vmalloc_map *map,
                         uint64_t start,
                         uint64_t end,
                         struct vmalloc_error *detail);

/*
 * Frees the area that starts at `start`. `*end`, which may be `NULL`, becomes the page behind it.
 * Requires: No other thread uses the map meanwhile.
 */
int vmalloc_map_release(struct vmalloc_map *map,
                        uint64_t start,
                        uint64_t *end,
                        struct vmalloc_error *detail);

/*
 * Tells the segment that holds `page`: free, or an area. It answers `-EFAULT` outside of the map.
 * Requires: No other thread changes the map meanwhile.
 */
int vmalloc_map_find(const struct vmalloc_map *map,
                     uint64_t page,
                     struct vmalloc_segment *segment,
                     struct vmalloc_error *detail);

/*
 * Calls `callback` for each segment from the one that holds `from` on. Returns 0 after the last,
 * or the answer that ended the walk. The callback does not change the map.
 * Requires: No other thread changes the map meanwhile.
 */
int vmalloc_map_walk(const struct vmalloc_map *map,
                     uint64_t from,
                     vmalloc_segment_callback callback,
                     void *context,
                     struct vmalloc_error *detail);

/* ---- The address map: areas cut, grown and shrunk ---- */

/* Figures of a map. */
typedef struct vmalloc_map_stats {
    /* `sizeof(vmalloc_map_stats)`: `VMALLOC_MAP_STATS_INIT` sets it. */
    size_t size;
    /* The first page. */
    uint64_t start;
    /* The page behind the last. */
    uint64_t end;
    /* Areas in use. */
    uint64_t areas;
    /* Free pages. */
    uint64_t free_pages;
    /* Pages of the largest free range. */
    uint64_t largest_free_pages;
    /* Bytes of metadata. */
    uint64_t metadata_bytes;
} vmalloc_map_stats;

#define VMALLOC_MAP_STATS_INIT \
    { sizeof(vmalloc_map_stats), 0, 0, 0, 0, 0, 0 }

/*
 * Frees the pages `[start, end)`, a part of one area. What is left of it on either side stays in
 * use, as areas of their own.
 * Requires: No other thread uses the map meanwhile.
 */
int vmalloc_map_release_part(struct vmalloc_map *map,
                             uint64_t start,
                             uint64_t end,
                             struct vmalloc_error *detail);

/*
 * Cuts the area that starts at `start` into two areas. The second starts at `at`.
 * Requires: No other thread uses the map meanwhile.
 */
int vmalloc_map_split(struct vmalloc_map *map,
                      uint64_t start,
                      uint64_t at,
                      struct vmalloc_error *detail);

/*
 * Makes the area that starts at `start` larger, to `pages` pages. It answers `-EEXIST` if the
 * pages behind it are taken.
 * Requires: No other thread uses the map meanwhile.
 */
int vmalloc_map_grow(struct vmalloc_map *map,
                     uint64_t start,
                     uint64_t pages,
                     struct vmalloc_error *detail);

/*
 * Makes the area that starts at `start` smaller, to `pages` pages. The rest is free.
 * Requires: No other thread uses the map meanwhile.
 */
int vmalloc_map_shrink(struct vmalloc_map *map,
                       uint64_t start,
                       uint64_t pages,
                       struct vmalloc_error *detail);

/*
 * Makes the map larger: it ends at `end` from now on.
 * Requires: No other thread uses the map meanwhile.
 */
int vmalloc_map_extend(struct vmalloc_map *map, uint64_t end, struct vmalloc_error *detail);

/*
 * Hands out `count` areas of `sizes[i]` pages at `base + offsets[i]`, all or none, and tells the
 * highest base that is possible, a multiple of `align`.
 * Requires: No other thread uses the map meanwhile.
 */
int vmalloc_map_alloc_congruent(struct vmalloc_map *map,
                                const uint64_t *offsets,
                                const uint64_t *sizes,
                                size_t count,
                                uint64_t align,
                                uint64_t *base,
                                struct vmalloc_error *detail);

/*
 * Tells the figures of a map.
 * Requires: No other thread changes the map meanwhile.
 */
int vmalloc_map_get_stats(const struct vmalloc_map *map,
                          struct vmalloc_map_stats *stats,
                          struct vmalloc_error *detail);

/*
 * Checks every invariant of a map. It answers `VMALLOC_E_DAMAGED` if one does not hold.
 * Requires: No other thread changes the map meanwhile.
 */
int vmalloc_map_verify(const struct vmalloc_map *map, struct vmalloc_error *detail);

#ifdef __cplusplus
}
#endif

#endif /* VMALLOC_H */
