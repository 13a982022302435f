/* SPDX-License-Identifier: Apache-2.0
 *
 * Times training steps of llm.c's CPU program on random parameters and tokens. Built by bench_language.sh
 * only if a checkout of llm.c is given: its train_gpt2.c is included from there, without its main (by the
 * macro that it has for its tests); no line of it is copied here. Gradients are clipped here, because our
 * step clips them and llm.c's CPU program does not. This program must not know cltrain.
 *
 * usage: peer_llmc B T STEPS CLIP -> one line per step with its milliseconds, then the peak resident set in
 * MiB */
#define TESTING
#include <train_gpt2.c>

#include <sys/resource.h>

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void random_model(GPT2 *model)
{
    unsigned state = 1;
    memset(model, 0, sizeof *model);
    model->config = (GPT2Config){.max_seq_len = 1024,
                                 .vocab_size = 50257,
                                 .padded_vocab_size = 50304,
                                 .num_layers = 12,
                                 .num_heads = 12,
                                 .channels = 768};
    fill_in_parameter_sizes(model->param_sizes, model->config);
    for (int i = 0; i < NUM_PARAMETER_TENSORS; i++)
        model->num_parameters += model->param_sizes[i];
    model->params_memory = malloc_and_point_parameters(&model->params, model->param_sizes);
    for (size_t i = 0; i < model->num_parameters; i++)
        model->params_memory[i] = ((float)next_random(&state) / 16777216.0f - 0.5f) * 0.07f;
    model->mean_loss = -1.0f;
}

static void clip_gradients(GPT2 *model, double limit)
{
    double sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (size_t i = 0; i < model->num_parameters; i++)
        sum += (double)model->grads_memory[i] * (double)model->grads_memory[i];
    float factor = (float)(limit / (sqrt(sum) + 1e-6));
    if (factor >= 1.0f)
        return;
#pragma omp parallel for
    for (size_t i = 0; i < model->num_parameters; i++)
        model->grads_memory[i] *= factor;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: peer_llmc B T STEPS CLIP\n");
        return 2;
    }
    int batch = atoi(argv[1]), context = atoi(argv[2]), steps = atoi(argv[3]);
    double limit = atof(argv[4]);
    GPT2 model;
    random_model(&model);
    int *tokens = malloc((size_t)(batch * context + 1) * sizeof *tokens);
    unsigned state = 7;
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i <= batch * context; i++)
            tokens[i] = (int)(next_random(&state) % 50257u);
        double start = seconds();
        gpt2_forward(&model, tokens, tokens + 1, (size_t)batch, (size_t)context);
        gpt2_zero_grad(&model);
        gpt2_backward(&model);
        if (limit > 0)
            clip_gradients(&model, limit);
        gpt2_update(&model, 1e-4f, 0.9f, 0.95f, 1e-8f, 0.1f, step + 1);
        printf("step_ms %.3f loss %.4f\n", (seconds() - start) * 1e3, model.mean_loss);
        fflush(stdout);
    }
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    printf("peak_rss_mib %.1f\n", (double)use.ru_maxrss / 1024.0);
    return 0;
}
