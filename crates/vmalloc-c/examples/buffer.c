/* A buffer that grows, is found by any address inside, and tells of mistakes. */
#include <stdio.h>
#include <string.h>
#include <vmalloc.h>

static int line(void *context, const char *text, size_t bytes)
{
    return fwrite(text, 1, bytes, context) != bytes;
}

int main(void)
{
    vmalloc_error error;
    vmalloc_space *space = vmalloc_open(NULL, &error);
    if (space == NULL) {
        fprintf(stderr, "no space: %s\n", error.text);
        return 1;
    }

    vmalloc_request request = VMALLOC_REQUEST_INIT;
    request.bytes = 100000;
    request.flags = VMALLOC_ZERO;
    request.tag = "frame buffer";
    char *buffer = vmalloc_alloc_with(space, &request, NULL);
    strcpy(buffer, "hello");
    buffer = vmalloc_realloc(space, buffer, 10 << 20, NULL);

    vmalloc_area area = VMALLOC_AREA_INIT;
    if (vmalloc_find(space, buffer + 4711, &area, NULL) == 0)
        printf("%s, in the area of %s: %zu bytes\n", buffer, area.tag, area.bytes);
    vmalloc_info(space, line, stdout, NULL);

    vmalloc_free(space, buffer, NULL);
    if (vmalloc_free(space, buffer, &error) != 0)
        printf("a second free: %s\n", error.text);
    vmalloc_close(space);
    return 0;
}
