/* Answers: 500 values of 100,000 bytes, each copied 40 times from behind its header of 9 bytes to behind the header of
   24 bytes of another block, as redis does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES = 500, ROUNDS = 40, BYTES = 100000 };

int main(void)
{
    static char *values[VALUES];
    unsigned sum = 0;
    for (int i = 0; i < VALUES; i++) {
        values[i] = malloc(9 + BYTES);
        memset(values[i], i, 9 + BYTES);
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < VALUES; i++) {
            char *answer = malloc(24 + BYTES);
            memcpy(answer + 24, values[i] + 9, BYTES);
            sum += (unsigned char) answer[24 + round];
            free(answer);
        }
    printf("%u\n", sum);
    return 0;
}
