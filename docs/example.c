/* SPDX-License-Identifier: Apache-2.0
 *
 * A net from C: learns in which of three rings a point of the plane lies, saves it, and asks it about three
 * points. cc example.c -lcltrain -o example && ./example */
#include <cltrain.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 2048, CLASSES = 3 };

static float x[SAMPLES][2];
static int32_t labels[SAMPLES];

static void check(int code)
{
    if (code == 0)
        return;
    fprintf(stderr, "%s\n", cltrain_error());
    exit(code);
}

static void on_step(void *context, const cltrain_step_info *info)
{
    (void)context;
    if (info->step % 100 == 0 || info->step == 1)
        printf("step %3lld of %lld: loss %.4f\n", (long long)info->step, (long long)info->steps, info->loss);
}

int main(void)
{
    const char *layers[] = {"{\"op\": \"linear\", \"out\": 32}", "{\"op\": \"tanh\"}",
                            "{\"op\": \"linear\", \"out\": 32}", "{\"op\": \"tanh\"}",
                            "{\"op\": \"linear\", \"out\": 3}",  "{\"op\": \"cross_entropy\"}"};
    const int64_t shape[] = {2};
    const float points[3][2] = {{0.1f, 0.1f}, {-0.6f, 0.0f}, {0.9f, -0.9f}};
    float scores[3][CLASSES];
    double loss, accuracy;
    cltrain *net;
    for (int i = 0; i < SAMPLES; i++) {
        x[i][0] = (float)rand() / (float)RAND_MAX * 2 - 1;
        x[i][1] = (float)rand() / (float)RAND_MAX * 2 - 1;
        float square = x[i][0] * x[i][0] + x[i][1] * x[i][1];
        labels[i] = square < 0.2f ? 0 : square < 0.6f ? 1 : 2;
    }
    check(cltrain_create(&net));
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++)
        check(cltrain_layer(net, layers[i]));
    check(cltrain_set(net, "optimizer.learning_rate", "0.01"));
    check(cltrain_set(net, "train.steps", "600"));
    check(cltrain_data_classes(net, SAMPLES, &x[0][0], 1, shape, labels));
    check(cltrain_train(net, on_step, NULL));
    check(cltrain_evaluate(net, &loss, &accuracy));
    check(cltrain_save(net, "rings.safetensors"));
    check(cltrain_predict(net, 3, &points[0][0], &scores[0][0], 3 * CLASSES));
    printf("loss %.4f, accuracy %.1f%%, saved in rings.safetensors\n", loss, 100 * accuracy);
    for (int i = 0; i < 3; i++)
        printf("scores of (%.1f, %.1f): %.2f %.2f %.2f\n", (double)points[i][0], (double)points[i][1],
               (double)scores[i][0], (double)scores[i][1], (double)scores[i][2]);
    cltrain_destroy(net);
}
