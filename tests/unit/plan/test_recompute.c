/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans that recompute against plans that keep everything: losses, gradients and parameters with running
 * statistics after several steps must have the same bits, for GPTs, MLPs, graphs and networks of
 * convolutions, with dropout and accumulation, fused and not; and the activations must need less memory.
 * ctest-labels: quick ctest-full: all ctest-cost: 9 ctest-optimise: no */
#include "tests/unit/plan/fuse_test.h"

static void same_as_kept(const char *text, const char *more)
{
    static const char *const tiers[] = {"train.recompute=gelu", "train.recompute=block"};
    if (left_out())
        return;
    trained kept = train(text, more, 3);
    for (int i = 0; i < 2; i++) {
        char settings[256];
        snprintf(settings, sizeof settings, "%s %s", more, tiers[i]);
        trained again = train(text, settings, 3);
        same_bits(settings, &kept, &again);
        trained_free(&again);
    }
    trained_free(&kept);
}

TEST(test_gpt)
{
    same_as_kept(OVER_TEXT("\"dropout\":0.2", ",\"global_batch\":4"), "");
    same_as_kept(OVER_TEXT("\"dropout\":0.2,\"activation\":\"relu\",\"tied\":false", ""), "");
    same_as_kept(OVER_TEXT("\"activation\":\"silu\",\"bias\":false", ""), "train.fuse=off");
}

TEST(test_mlp)
{
#define DEEP "\"hidden\":[40,33,36,24,40,17]"
    same_as_kept(OVER_NUMBERS("{\"type\":\"mlp\"," DEEP ",\"activation\":\"gelu\",\"dropout\":0.3}", TWICE),
                 "");
    same_as_kept(OVER_NUMBERS("{\"type\":\"mlp\"," DEEP ",\"activation\":\"relu\",\"dropout\":0.1}", ""),
                 "train.fuse=off");
    same_as_kept(OVER_NUMBERS("{\"type\":\"mlp\",\"hidden\":[20],\"activation\":\"tanh\"}", ""), "");
}

/* Views, a connection that skips blocks, and two losses, one of them in the middle. */
#define BRANCHES                                                                                                                             \
    GRAPH(                                                                                                                                   \
        STEM                                                                                                                                 \
        "," LAYER("reshape", "grid", ",\"shape\":[4,4]") "," LAYER("gelu", "bend", "") "," LAYER("dropout", "drop", ",\"p\":0.2") "," LAYER( \
            "flatten", "line",                                                                                                               \
            "") "," BLOCK("1",                                                                                                               \
                          "line") "," LAYER("linear", "aside",                                                                               \
                                            ",\"inputs\":[\"sum1\"],"                                                                        \
                                            "\"out\":7") "," LAYER("cross_"                                                                  \
                                                                   "entrop"                                                                  \
                                                                   "y",                                                                      \
                                                                   "aux",                                                                    \
                                                                   ",\"inpu"                                                                 \
                                                                   "ts\":["                                                                  \
                                                                   "\"aside"                                                                 \
                                                                   "\","                                                                     \
                                                                   "\"y\"],"                                                                 \
                                                                   "\"weigh"                                                                 \
                                                                   "t\":0."                                                                  \
                                                                   "3") "," BLOCK("2",                                                       \
                                                                                  "sum1") "," LAYER("conca"                                  \
                                                                                                    "t",                                     \
                                                                                                    "both",                                  \
                                                                                                    ",\"inp"                                 \
                                                                                                    "uts\":"                                 \
                                                                                                    "[\"sum"                                 \
                                                                                                    "2\","                                   \
                                                                                                    "\"stem"                                 \
                                                                                                    "\"]") "," LAYER("silu",                 \
                                                                                                                     "last",                 \
                                                                                                                     "") "," HEAD)

TEST(test_graphs)
{
    same_as_kept(OVER_NUMBERS(BRANCHES, TWICE), "");
    same_as_kept(OVER_NUMBERS(RESIDUAL, TWICE), "");
    same_as_kept(OVER_NUMBERS(BRANCHES, ""), "train.fuse=off");
}

/* Batch norms that absorb the residual sum and relu, in blocks of both kinds, and norms without running
 * statistics. */
#define OVER_IMAGES(model, image, batch, more)                                                               \
    "{\"model\":{\"type\":" model ",\"classes\":7},\"data\":{\"type\":\"synthetic\",\"shape\":[3," image     \
    "],\"classes\":7,\"samples\":64,\"micro_batch\":" batch more                                             \
    "},\"optimizer\":{\"type\":\"sgd\",\"momentum\":0.9},\"train\":{\"steps\":3}}"
#define RESNET(depth) "\"resnet\",\"depth\":" depth ",\"stem\":\"cifar\",\"width\":4"
#define CONV(name) LAYER("conv2d", name, ",\"out\":6,\"kernel\":3,\"padding\":1")
#define NORMS                                                                                                                                        \
    GRAPH(LAYER("reshape", "image", ",\"inputs\":[\"x\"],\"shape\":[2,3,4]") "," CONV("c1") "," LAYER(                                               \
        "group_norm", "n1",                                                                                                                          \
        ",\"groups\":2") "," LAYER("relu", "a1",                                                                                                     \
                                   "") "," CONV("c2") "," LAYER("instance_norm", "n2",                                                               \
                                                                "") "," LAYER("gelu", "a2",                                                          \
                                                                              "") "," CONV("c3") "," LAYER("batch_norm",                             \
                                                                                                           "n3",                                     \
                                                                                                           ",\"affine\":false") "," LAYER("flatten", \
                                                                                                                                          "flat",    \
                                                                                                                                          "") "," HEAD)

TEST(test_convolutions)
{
    same_as_kept(OVER_IMAGES(RESNET("18"), "10,8", "3", ",\"global_batch\":6"), "");
    same_as_kept(OVER_IMAGES(RESNET("50"), "9,9", "2", ""), "");
    same_as_kept(OVER_IMAGES(RESNET("18"), "9,9", "2", ""), "train.fuse=off");
    same_as_kept(OVER_IMAGES(RESNET("50"), "9,9", "2", ""), "precision.mode=bf16");
    same_as_kept(OVER_NUMBERS(NORMS, TWICE), "");
}

/* --- memory --- */

typedef struct cost {
    uint64_t bytes, bound;
    size_t again; /* recomputed commands */
} cost;

static cost cost_of(const char *text, const char *settings)
{
    CLT_SCOPED(clt_config) *config = train_config(text);
    ocl_device_desc desc;
    CLT_SCOPED(clt_job) *job = NULL;
    ocl_desc_generic(&desc);
    override(config, settings);
    must(clt_job_create(config, &desc, 1, CLT_JOB_TRAIN, &job), text);
    cost c = {job->train->activation_bytes, job->train->activation_bound, 0};
    const ocl_command_list *list = &job->train->phase[CLT_PHASE_BACKWARD];
    for (size_t i = 0; i < list->count; i++)
        c.again += strstr(list->commands[i].label, ".recompute") != NULL;
    return c;
}

/* A GPT with more and wider layers and a deeper MLP, whose memory depends on activations rather than on
 * single gradients. */
#define LARGER "\"layers\":8,\"heads\":4,\"channels\":64,\"context\":64,\"vocab\":300"
#define LARGER_GPT(more)                                                                                     \
    "{\"model\":{\"type\":\"gpt\"," LARGER more "},\"data\":{\"type\":\"text\",\"path\":\"%D/text.txt\","    \
    "\"micro_batch\":8},\"train\":{\"steps\":3}}"
#define LARGER_MLP                                                                                           \
    "{\"model\":{\"type\":\"mlp\",\"hidden\":[256,256,256,256,256,256,256,256,256,256,256,256,256],"         \
    "\"activation\":\"gelu\",\"dropout\":0.1},\"data\":{\"type\":\"synthetic\",\"shape\":[256],"             \
    "\"classes\":7,\"samples\":64,\"micro_batch\":256},\"train\":{\"steps\":3}}"

TEST(test_memory)
{
    static const char *const models[] = {LARGER_GPT(""), LARGER_GPT(",\"dropout\":0.1"), LARGER_MLP};
    static const char *const forms[] = {"", "train.fuse=off"};
    for (int m = 0; m < 3; m++)
        for (int f = 0; f < 2; f++) {
            char gelu[64], block[64];
            snprintf(gelu, sizeof gelu, "%s train.recompute=gelu", forms[f]);
            snprintf(block, sizeof block, "%s train.recompute=block", forms[f]);
            cost kept = cost_of(models[m], forms[f]), cheap = cost_of(models[m], gelu),
                 blocks = cost_of(models[m], block);
            assert_int_equal(kept.again, 0);
            assert_true(cheap.again > 0 && blocks.again > 0);
            if (!(cheap.bytes < kept.bytes && blocks.bytes < cheap.bytes))
                fail_msg("model %d, %s: %llu bytes kept, %llu with gelu, %llu with block", m, forms[f],
                         (unsigned long long)kept.bytes, (unsigned long long)cheap.bytes,
                         (unsigned long long)blocks.bytes);
            /* the placement must not lose what recomputing saves */
            assert_true(blocks.bytes <= blocks.bound + blocks.bound / 10);
        }
}

/* Number of commands in the backward phase that recompute a layer. */
static size_t repeats(const clt_job *job, const char *layer)
{
    char label[64];
    size_t n = 0;
    const ocl_command_list *list = &job->train->phase[CLT_PHASE_BACKWARD];
    snprintf(label, sizeof label, "%s.recompute", layer);
    for (size_t i = 0; i < list->count; i++)
        n += strcmp(list->commands[i].label, label) == 0;
    return n;
}

/* Whether the backward phase reads the original of a tensor, not a recomputed copy. */
static bool reads_first(const clt_job *job, const char *name)
{
    const ocl_command_list *list = &job->train->phase[CLT_PHASE_BACKWARD];
    for (size_t i = 0; i < list->count; i++)
        for (int a = 0; a < list->commands[i].n_args; a++) {
            const ocl_arg *arg = &list->commands[i].args[a];
            if (arg->kind == OCL_ARG_TENSOR && arg->ref.tensor >= 0 && (arg->access & OCL_READ) &&
                strcmp(clt_graph_tensor(job->train->graph, arg->ref.tensor)->name, name) == 0)
                return true;
        }
    return false;
}

/* block: values that a layer's own backward reads are recomputed; the layer's output is not, and neither is
 * the end of the model, whose backward follows immediately. gelu: only outputs of cheap ops are
 * recomputed. */
TEST(test_what_is_repeated)
{
    static const char *const inside[] = {"ln_1", "attn.c_attn", "attn", "attn.c_proj", "ln_2", "mlp.c_fc"};
    for (int block = 0; block < 2; block++) {
        CLT_SCOPED(clt_config) *config = train_config(LARGER_GPT(""));
        ocl_device_desc desc;
        CLT_SCOPED(clt_job) *job = NULL;
        ocl_desc_generic(&desc);
        override(config, block ? "train.recompute=block" : "train.recompute=gelu");
        must(clt_job_create(config, &desc, 1, CLT_JOB_TRAIN, &job), "job");
        for (int layer = 0; layer < 8; layer++) {
            char name[32];
            for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++) {
                bool cheap = strncmp(inside[i], "ln_", 3) == 0;
                snprintf(name, sizeof name, "h.%d.%s", layer, inside[i]);
                if (block)
                    assert_true(repeats(job, name) > 0 && !reads_first(job, name));
                else if (!cheap)
                    assert_int_equal(repeats(job, name), 0);
            }
            snprintf(name, sizeof name, "h.%d.mlp.c_proj", layer);
            assert_int_equal(repeats(job, name), 0);
        }
        if (block)
            assert_int_equal(repeats(job, "ln_f"), 0);
        assert_int_equal(repeats(job, "wte"), 0);
    }
}

/* Only the output of a batch norm is recomputed: by one command, which reads the statistics that the first
 * pass saved. */
TEST(test_saved_statistics)
{
    static const char *const tiers[] = {"train.recompute=gelu", "train.recompute=block"};
    for (int tier = 0; tier < 2; tier++) {
        CLT_SCOPED(clt_config) *config = train_config(OVER_IMAGES(RESNET("50"), "32,32", "8", ""));
        ocl_device_desc desc;
        CLT_SCOPED(clt_job) *job = NULL;
        ocl_desc_generic(&desc);
        override(config, tiers[tier]);
        must(clt_job_create(config, &desc, 1, CLT_JOB_TRAIN, &job), "job");
        for (int block = 0; block < 3; block++) {
            char name[32];
            snprintf(name, sizeof name, "layer2.%d.bn1", block);
            assert_int_equal(repeats(job, name), 1);
            snprintf(name, sizeof name, "layer2.%d.bn1.mean", block);
            assert_true(reads_first(job, name));
            snprintf(name, sizeof name, "layer2.%d.conv1", block);
            assert_int_equal(repeats(job, name) > 0, tier == 1);
        }
    }
}

TEST_PROGRAM(.device = true, .set_up = fuse_setup);
