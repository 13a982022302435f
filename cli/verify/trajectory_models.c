/* SPDX-License-Identifier: Apache-2.0
 *
 * The models that verify --trajectory trains, and the data that it makes for them. */
#include "cli/verify/trajectory_models.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/rng.h"
#include "engine/base/text.h"
#include "engine/data/open/sample_volumes.h"
#include "engine/files/fileio.h"

#define SENTENCES 1000
#define TEXT_FILE "text.txt"
#define VOLUMES_FOLDER "volumes"

typedef struct trajectory_model {
    const char *name;
    const char *config;
    const char *path; /* data.path within the folder of data; NULL: the model needs no files */
} trajectory_model;

/* Norms, activations, optimizers and losses differ, so that together the models use most families of
 * kernels. The ResNet's blocks start as the identity and the U-Net uses plain SGD: otherwise batch norm on
 * small batches, or Adam's division by tiny gradients, would amplify each rounding error with every step. */
static const trajectory_model models[TRAJECTORY_MODELS] = {
    {"mlp",
     "{\"model\": {\"type\": \"mlp\", \"hidden\": [128, 128]},\n"
     " \"data\": {\"type\": \"synthetic\", \"shape\": [64], \"classes\": 10, \"samples\": 512, \"noise\": 1,"
     " \"micro_batch\": 16},\n"
     " \"optimizer\": {\"type\": \"adam\", \"learning_rate\": 0.002},\n",
     NULL},
    {"gpt",
     "{\"model\": {\"type\": \"gpt\", \"layers\": 2, \"heads\": 4, \"channels\": 64, \"context\": 32,"
     " \"dropout\": 0.1},\n"
     " \"data\": {\"type\": \"text\", \"split\": 0, \"micro_batch\": 4, \"global_batch\": 8},\n"
     " \"optimizer\": {\"type\": \"adamw\", \"learning_rate\": 0.0015, \"weight_decay\": 0.1, \"clip\": "
     "1},\n",
     TEXT_FILE},
    {"llama",
     "{\"model\": {\"type\": \"llama\", \"layers\": 2, \"heads\": 4, \"kv_heads\": 2, \"channels\": 64,"
     " \"inner\": 128, \"context\": 32, \"tied\": false},\n"
     " \"data\": {\"type\": \"text\", \"split\": 0, \"micro_batch\": 4, \"global_batch\": 8},\n"
     " \"optimizer\": {\"type\": \"adamw\", \"learning_rate\": 0.003, \"weight_decay\": 0.1, \"clip\": 1},\n",
     TEXT_FILE},
    {"resnet",
     "{\"model\": {\"type\": \"resnet\", \"depth\": 18, \"stem\": \"cifar\", \"width\": 8, \"zero_init\": "
     "true,"
     " \"classes\": 8},\n"
     " \"data\": {\"type\": \"synthetic\", \"shape\": [3, 16, 16], \"classes\": 8, \"samples\": 512,"
     " \"noise\": 1, \"micro_batch\": 16},\n"
     " \"optimizer\": {\"type\": \"sgd\", \"learning_rate\": 0.01, \"momentum\": 0.9, \"nesterov\": true,"
     " \"weight_decay\": 0.0005},\n",
     NULL},
    {"unet",
     "{\"model\": {\"type\": \"unet3d\", \"levels\": 2, \"width\": 4},\n"
     " \"data\": {\"type\": \"nifti\", \"split\": 0, \"patch\": [16, 16, 16], \"patches_per_volume\": 4,"
     " \"window_low\": -200, \"window_high\": 300, \"flip_axes\": [0, 1, 2], \"micro_batch\": 2},\n"
     " \"optimizer\": {\"type\": \"sgd\", \"learning_rate\": 0.004, \"momentum\": 0.9},\n",
     VOLUMES_FOLDER},
};
static const char *const types[TRAJECTORY_TYPES] = {"f32", "f16", "bf16"};

void trajectory_name(int number, char name[TRAJECTORY_NAME])
{
    snprintf(name, TRAJECTORY_NAME, "%s.%s", models[number / TRAJECTORY_TYPES].name,
             types[number % TRAJECTORY_TYPES]);
}

int trajectory_find(const char *name)
{
    char other[TRAJECTORY_NAME];
    for (int i = 0; i < TRAJECTORIES; i++) {
        trajectory_name(i, other);
        if (strcmp(name, other) == 0)
            return i;
    }
    return -1;
}

bool trajectory_is_wide(int number)
{
    return number % TRAJECTORY_TYPES == 0;
}

/* --- data --- */

static const char *draw_word(const char *const words[8], uint32_t sentence, uint64_t place)
{
    return words[clt_rng_u32(1, CLT_RNG_DATA, 1, sentence, place) >> 29];
}

/* Writes sentences of four parts, which a small model learns in a few steps. */
static clt_status write_text(const char *folder)
{
    static const char *const subjects[8] = {"the engine", "a driver",     "our kernel", "the loader",
                                            "one rank",   "the compiler", "a buffer",   "this device"};
    static const char *const verbs[8] = {"adds",  "reads",  "keeps",  "writes",
                                         "sends", "builds", "checks", "uses"};
    static const char *const objects[8] = {"a gradient",     "the weights", "every sum",     "its queue",
                                           "the next batch", "no copy",     "the same bits", "a small tile"};
    static const char *const ends[8] = {"",
                                        " in order",
                                        " on each step",
                                        " again",
                                        " before noon",
                                        " without a wait",
                                        " after the norm",
                                        " at once"};
    CLT_SCOPED(clt_str) text = {0};
    CLT_FREED char *path = NULL;
    for (uint32_t i = 0; i < SENTENCES; i++)
        clt_str_printf(&text, "%s %s %s%s.\n", draw_word(subjects, i, 0), draw_word(verbs, i, 1),
                       draw_word(objects, i, 2), draw_word(ends, i, 3));
    CLT_TRY(clt_str_check(&text));
    CLT_TRY(clt_path_join(folder, TEXT_FILE, &path));
    return clt_file_write(path, text.text, text.length);
}

clt_status trajectory_data(const char *folder)
{
    CLT_FREED char *path = NULL;
    CLT_TRY(write_text(folder));
    CLT_TRY(clt_path_join(folder, VOLUMES_FOLDER, &path));
    const clt_sample_options volumes = {
        .folder = path, .masks = true, .count = 4, .seed = 1, .size = {24, 24, 24}, .noise = 20};
    return clt_sample_volumes(&volumes);
}

clt_status trajectory_config(int number, const char *folder, clt_config **out)
{
    const trajectory_model *model = &models[number / TRAJECTORY_TYPES];
    CLT_SCOPED(clt_str) text = {0};
    CLT_SCOPED(clt_str) path = {0};
    char mode[48], name[TRAJECTORY_NAME];
    trajectory_name(number, name);
    clt_str_printf(&text,
                   "%s \"schedule\": {\"type\": \"cosine\", \"warmup\": 5},\n \"train\": {\"steps\": %d}}\n",
                   model->config, TRAJECTORY_STEPS);
    snprintf(mode, sizeof mode, "precision.mode=%s", types[number % TRAJECTORY_TYPES]);
    clt_str_printf(&path, "data.path=%s/%s", folder, model->path ? model->path : "");
    CLT_TRY(clt_str_check(&text));
    CLT_TRY(clt_str_check(&path));
    const char *overrides[3] = {mode};
    int n = 1;
    if (strcmp(types[number % TRAJECTORY_TYPES], "f16") == 0)
        overrides[n++] = "precision.loss_scale=1024"; /* with this scale no gradient overflows */
    if (model->path)
        overrides[n++] = path.text;
    return clt_config_parse(text.text, name, overrides, n, out);
}
