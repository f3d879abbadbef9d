/* A ring buffer without a seam: the same frames twice, one behind the other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vmalloc.h>

int main(void)
{
    vmalloc_space *space = vmalloc_open(NULL, NULL);
    enum { FRAMES = 4 };
    vmalloc_frames *frames = vmalloc_frames_take(space, FRAMES, NULL);
    uint64_t twice[2 * FRAMES];
    for (int nth = 0; nth < 2 * FRAMES; nth++)
        twice[nth] = vmalloc_frames_numbers(frames)[nth % FRAMES];
    char *ring = vmalloc_map_frames(space, twice, 2 * FRAMES, VMALLOC_READ_WRITE, "ring", NULL);
    if (ring == NULL)
        return EXIT_FAILURE;

    size_t bytes = FRAMES * vmalloc_page_size();
    const char text[] = "across the end";
    memcpy(ring + bytes - 7, text, sizeof text); /* no case for the wrap */
    printf("%s: \"%s\" continues at the start\n", text, ring);

    vmalloc_unmap(space, ring, NULL);
    vmalloc_frames_free(frames);
    vmalloc_close(space);
    return 0;
}
