/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that uses the library through its public header, for test_library_host.sh: builds a small net,
 * prints the warnings that it receives, and the variables that the library has left in its environment. With
 * the argument "once" the receiver of warnings removes itself. */
#include <stdio.h>
#include <string.h>

#include "engine/cltrain.h"

extern char **environ;

static int once;

static void on_message(void *context, const char *line)
{
    ++*(int *)context;
    printf("message: %s\n", line);
    if (once)
        cltrain_on_message(NULL, NULL);
}

int main(int argc, char **argv)
{
    float x[64];
    int32_t labels[32];
    int64_t shape[1] = {2};
    int messages = 0;
    cltrain *net;
    once = argc > 1 && strcmp(argv[1], "once") == 0;
    for (int i = 0; i < 64; i++)
        x[i] = (float)(i % 7) - 3.0f;
    for (int i = 0; i < 32; i++)
        labels[i] = i % 2;
    cltrain_on_message(on_message, &messages);
    int code = cltrain_create(&net);
    code = code ? code : cltrain_layer(net, "{\"op\": \"linear\", \"out\": 2}");
    code = code ? code : cltrain_layer(net, "{\"op\": \"cross_entropy\"}");
    code = code ? code : cltrain_set(net, "train.steps", "2");
    code = code ? code : cltrain_set(net, "data.micro_batch", "8");
    code = code ? code : cltrain_data_classes(net, 32, x, 1, shape, labels);
    code = code ? code : cltrain_train(net, NULL, NULL);
    if (code)
        printf("error: %s\n", cltrain_error());
    cltrain_destroy(net);
    cltrain_on_message(NULL, NULL);
    for (char **v = environ; *v; v++)
        if (strncmp(*v, "CLTRAIN_", 8) == 0)
            printf("environment: %s\n", *v);
    printf("%d messages\n", messages);
    return code;
}
