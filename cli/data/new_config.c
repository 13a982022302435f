/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain new: finds out what kind of data a path holds, and drafts configs for arrays, texts and token
 * shards. cli/data/new_table.c does it for tables, cli/data/new_images.c for images and volumes. */
#include "cli/data/new_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "cli/screen/args.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/config/config.h"
#include "engine/data/images/image_pack.h"
#include "engine/data/images/image_source.h"
#include "engine/data/open/rows.h"
#include "engine/data/pixels/image_folder.h"
#include "engine/data/texts/text_paths.h"
#include "engine/data/volumes/volume_list.h"
#include "engine/files/fileio.h"
#include "engine/json/json.h"
#include "engine/json/json_walk.h"

clt_status new_config_data(const new_config *n, clt_config **config)
{
    CLT_SCOPED(clt_str) text = {0};
    const char *data[ARGS_MAX];
    int count = 0;
    for (int i = 0; i < n->n_overrides && count < ARGS_MAX; i++)
        if (strncmp(n->overrides[i], "data.", 5) == 0)
            data[count++] = n->overrides[i];
    CLT_TRY(draft_write(&n->draft, true, &text));
    return clt_config_parse(text.text, n->path, data, count, config);
}

clt_status new_config_probe(const new_config *n, clt_config **config, clt_source **source)
{
    CLT_TRY(new_config_data(n, config));
    return clt_source_open(*config, CLT_SPLIT_TRAIN, source);
}

clt_status new_config_describe(new_config *n)
{
    CLT_SCOPED(clt_config) *config = NULL;
    CLT_SCOPED(clt_source) *source = NULL;
    CLT_TRY(new_config_probe(n, &config, &source));
    clt_str_printf(&n->found, "%s\n", source->description);
    return CLT_OK;
}

void new_config_length(new_config *n, const new_length *length)
{
    int64_t batch = new_config_given_int(n, "data.micro_batch", length->batch);
    int64_t of_epoch = length->samples / batch > 0 ? length->samples / batch : 1;
    int64_t epochs = (length->steps + of_epoch - 1) / of_epoch;
    epochs = epochs < length->least_epochs  ? length->least_epochs
             : epochs > length->most_epochs ? length->most_epochs
                                            : epochs;
    epochs = new_config_given_int(n, "train.epochs", epochs);
    int64_t all = new_config_given_int(n, "train.steps", epochs * of_epoch);
    draft_int(&n->draft, "data.micro_batch", length->batch);
    draft_text(&n->draft, "schedule.type", "cosine");
    draft_int(&n->draft, "schedule.warmup", all / 20 < 200 ? all / 20 : 200);
    draft_int(&n->draft, "train.epochs", epochs);
    if (length->has_eval)
        draft_int(&n->draft, "train.eval_every", all / 10 > 0 ? all / 10 : 1);
}

/* --- arrays --- */

clt_status new_config_are_classes(const clt_source *source, int field, bool *out)
{
    bool seen[64] = {false};
    const clt_source_field *y = &source->fields[field];
    *out = false;
    if (!y->is_index || y->shape.ndim > 0 || y->max_value < 1 || y->max_value >= 64)
        return CLT_OK;
    int64_t most = source->samples < 100000 ? source->samples : 100000, kinds = 0;
    for (int64_t i = 0; i < most; i++) {
        union {
            uint8_t u8;
            uint16_t u16;
            int32_t i32;
            float f32;
        } value;
        CLT_TRY(clt_source_read_field(source, i, field, &value));
        double number = clt_number_at(&value, y->dtype, 0);
        if (number < 0 || number > 63)
            return CLT_OK;
        kinds += !seen[(int)number];
        seen[(int)number] = true;
    }
    *out = kinds >= y->max_value && kinds * 4 <= source->samples;
    return CLT_OK;
}

void new_config_mlp(new_config *n, const clt_source *source, bool classes, bool has_eval)
{
    int64_t inputs = clt_shape_elements(&source->fields[0].shape);
    int64_t width = inputs <= 64    ? 64
                    : inputs <= 256 ? 128
                                    : 256,
            hidden[2] = {width, width > 64 ? width / 2 : 64};
    int64_t batch = source->samples < 10000 ? 32 : source->samples < 200000 ? 128 : 512;
    draft *d = &n->draft;
    draft_text(d, "model.type", "mlp");
    draft_ints(d, "model.hidden", hidden, 2);
    draft_text(d, "model.loss", classes ? "cross_entropy" : "mse");
    while (batch > 1 && batch > source->samples)
        batch /= 2;
    draft_text(d, "optimizer.type", "adamw");
    draft_number(d, "optimizer.learning_rate", 0.002);
    draft_number(d, "optimizer.weight_decay", 0.01);
    new_config_length(n, &(new_length){source->samples, batch, 3000, 3, 100, has_eval});
    const char *loss = new_config_given(n, "model.loss");
    clt_str_printf(&n->found, "the config: an mlp of two hidden layers, %s%s, batches of %lld\n",
                   loss      ? "with the loss "
                   : classes ? "which classifies (model.loss cross_entropy)"
                             : "a regression (model.loss mse)",
                   loss ? loss : "", (long long)new_config_given_int(n, "data.micro_batch", batch));
}

/* Pairs of words in the names of files: inputs and their targets; training data and evaluation data. */
static const char *const target_names[][2] = {{"images-idx3", "labels-idx1"},
                                              {"images", "labels"},
                                              {"inputs", "targets"},
                                              {"features", "labels"},
                                              {"data", "labels"},
                                              {"data", "targets"},
                                              {"X", "y"},
                                              {"x", "y"}};
static const char *const eval_names[][2] = {
    {"train", "t10k"}, {"train", "test"}, {"train", "val"}, {"train", "valid"}};

/* Replaces the first word of a pair in the name of `path` by the second word, and finds the file with this
 * name; NULL: there is none. */
static const char *sibling(new_config *n, const char *path, const char *const names[][2], size_t count)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 0; path && i < count; i++) {
        const char *at = strstr(name, names[i][0]);
        if (!at)
            continue;
        char *other = clt_arena_printf(n->draft.arena, "%.*s%s%s", (int)(at - path), path, names[i][1],
                                       at + strlen(names[i][0]));
        if (other && clt_file_exists(other))
            return other;
    }
    return NULL;
}
#define COUNT(names) (sizeof(names) / sizeof(names)[0])

clt_status new_config_arrays(new_config *n, const char *type)
{
    CLT_SCOPED(clt_config) *config = NULL;
    CLT_SCOPED(clt_source) *source = NULL;
    bool classes = false;
    const char *targets = n->targets ? n->targets : sibling(n, n->path, target_names, COUNT(target_names));
    if (!targets)
        CLT_FAIL(
            CLT_EUSAGE,
            "cltrain new: '%s' is an array (%s); name the file of its targets, too: cltrain new %s TARGETS",
            n->path, type, n->path);
    draft_text(&n->draft, "data.type", type);
    draft_text(&n->draft, "data.path", n->path);
    draft_text(&n->draft, "data.targets", targets);
    CLT_TRY(new_config_probe(n, &config, &source));
    const char *eval = sibling(n, n->path, eval_names, COUNT(eval_names));
    const char *eval_targets = sibling(n, targets, eval_names, COUNT(eval_names));
    if (eval && eval_targets) {
        draft_text(&n->draft, "data.eval_path", eval);
        draft_text(&n->draft, "data.eval_targets", eval_targets);
    }
    if (source->n_fields > 1)
        CLT_TRY(new_config_are_classes(source, 1, &classes));
    clt_str_printf(&n->found, "%s\n", source->description);
    if (eval && eval_targets)
        clt_str_printf(&n->found, "evaluation: '%s' with '%s'\n", eval, eval_targets);
    new_config_mlp(n, source, classes, eval && eval_targets);
    return CLT_OK;
}

/* --- texts --- */

typedef struct key_search {
    new_config *n;
    const char *key; /* NULL: not found yet */
    bool plain;      /* a file is neither JSON Lines nor a list of JSON */
} key_search;

/* Finds the member that holds the text in the first record of a file: one with a usual name, else the
 * longest string. Finds none in empty and compressed files. */
static clt_status look_for_key(void *context, const char *path, const clt_text_group *group)
{
    static const char *const usual[] = {"text", "content", "body"};
    key_search *search = context;
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    char start[65536];
    size_t got = 0, size = 0, longest = 0;
    const char *record;
    (void)group;
    if (search->plain)
        return CLT_OK;
    CLT_TRY(clt_file_read_start(path, start, sizeof start - 1, CLT_EDATA, &got));
    if (got == 0 || clt_is_gzip(start, got))
        return CLT_OK;
    record = clt_json_first_record(start, got, &size);
    search->plain = !record || clt_json_parse(record, size, path, CLT_EDATA, &doc) != CLT_OK;
    if (search->plain)
        clt_error_clear();
    if (search->plain || search->key)
        return CLT_OK;
    CLT_TRY(new_config_check_record(path, clt_json_root(doc)));
    for (const clt_json *m = clt_json_first(clt_json_root(doc)); m; m = clt_json_next(m)) {
        size_t length = clt_json_typeof(m) == CLT_JSON_STRING ? strlen(clt_json_string(m)) + 1 : 0;
        for (size_t i = 0; length > 0 && i < COUNT(usual); i++)
            if (strcmp(clt_json_key(m), usual[i]) == 0)
                length = SIZE_MAX - i;
        if (length > longest) {
            longest = length;
            search->key = clt_arena_strdup(search->n->draft.arena, clt_json_key(m));
        }
    }
    return CLT_OK;
}

/* *key: the member that holds the texts in the first file of records; NULL: there is no such file, or some
 * files are plain text. */
static clt_status find_json_key(new_config *n, const char **key)
{
    key_search search = {.n = n};
    CLT_TRY(clt_text_paths(n->path, "the text", look_for_key, &search));
    *key = search.plain ? NULL : search.key;
    return CLT_OK;
}

/* Drafts a small GPT for the text or the tokens that the draft names. */
static clt_status set_gpt(new_config *n, int64_t *tokens)
{
    CLT_SCOPED(clt_config) *config = NULL;
    CLT_SCOPED(clt_source) *source = NULL;
    CLT_TRY(new_config_probe(n, &config, &source));
    *tokens = source->tokens;
    draft_gpt(&n->draft, (uint64_t)source->tokens, clt_source_has_eval(config));
    int64_t steps = new_config_given_int(n, "train.steps", 0);
    if (steps > 0)
        draft_int(&n->draft, "schedule.warmup", steps / 20);
    if (steps > 0 && clt_source_has_eval(config))
        draft_int(&n->draft, "train.eval_every", steps / 4 > 0 ? steps / 4 : 1);
    return new_config_describe(n);
}

clt_status new_config_text(new_config *n)
{
    int64_t tokens;
    const char *key = n->json_key;
    if (!key)
        CLT_TRY(find_json_key(n, &key));
    draft_text(&n->draft, "data.type", "text");
    draft_text(&n->draft, "data.path", n->path);
    if (key)
        draft_text(&n->draft, "data.json_key", key);
    if (n->tokenizer)
        draft_text(&n->draft, "data.tokenizer", n->tokenizer);
    CLT_TRY(set_gpt(n, &tokens));
    if (key && !n->json_key)
        clt_str_printf(&n->found, "records: the text of a record is '%s' (another member: --json-key NAME)\n",
                       key);
    clt_str_printf(&n->found, "the config: a small GPT over %s\n", n->tokenizer ? "the tokens" : "bytes");
    if (!n->tokenizer && tokens > 1000000)
        clt_str_append(&n->found,
                       "a text of this size is learned better in tokens: 'cltrain data prepare TEXT "
                       "--train-bpe 4096 --out FOLDER' makes them, and a config for them\n");
    return CLT_OK;
}

clt_status new_config_tokens(new_config *n)
{
    int64_t tokens;
    draft_text(&n->draft, "data.type", "tokens");
    draft_text(&n->draft, "data.path", n->path);
    if (n->tokenizer)
        draft_text(&n->draft, "data.tokenizer", n->tokenizer);
    CLT_TRY(set_gpt(n, &tokens));
    clt_str_append(&n->found, "the config: a small GPT over the tokens\n");
    return CLT_OK;
}

/* --- which kind --- */

/* True if the name ends with one of `ends`, or with one of them and .gz. */
static bool is_named(const char *path, const char *const *ends)
{
    size_t n = strlen(path);
    if (n > 3 && strcasecmp(path + n - 3, ".gz") == 0)
        n -= 3;
    for (; *ends; ends++)
        if (n > strlen(*ends) && strncasecmp(path + n - strlen(*ends), *ends, strlen(*ends)) == 0)
            return true;
    return false;
}

static bool has(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return clt_file_exists(path) || clt_is_directory(path);
}

/* True if a folder has the layout that training expects for volumes. The volumes themselves are checked
 * later. */
static bool holds_volumes(const char *folder)
{
    const char **names;
    int64_t count = 0;
    CLT_SCOPED(clt_arena) *arena = NULL;
    if ((has(folder, "images") && has(folder, "masks")) ||
        (has(folder, "imagesTr") && has(folder, "labelsTr")))
        return true;
    if (clt_arena_create(&arena) != CLT_OK ||
        clt_volume_list_classes(arena, folder, &names, &count) != CLT_OK)
        clt_error_clear();
    return count > 0;
}

/* True for folders images/ and masks/ (or nnU-Net's names for them) that contain flat images, not volumes. */
static bool holds_flat_masks(const char *path)
{
    static const char *const pairs[][2] = {
        {"images", "masks"}, {"imagesTr", "labelsTr"}, {"train/images", "train/masks"}};
    for (size_t i = 0; i < COUNT(pairs); i++) {
        char images[4096], masks[4096];
        snprintf(images, sizeof images, "%s/%s", path, pairs[i][0]);
        snprintf(masks, sizeof masks, "%s/%s", path, pairs[i][1]);
        if (clt_is_directory(images) && clt_is_directory(masks) && clt_folder_has_images(images))
            return true;
    }
    return false;
}

static clt_status look_at_folder(new_config *n)
{
    char train[4096];
    snprintf(train, sizeof train, "%s/train", n->path);
    if (clt_checkpoint_exists(n->path))
        CLT_FAIL(CLT_EUSAGE, "cltrain new: '%s' is a trained run: cltrain train --resume %s resumes it",
                 n->path, n->path);
    if (has(n->path, "config.json") && has(n->path, "model.safetensors"))
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain new: '%s' is a model of transformers: cltrain import %s --out CONFIG writes a "
                 "config for it",
                 n->path, n->path);
    if (holds_flat_masks(n->path))
        CLT_FAIL(CLT_EDATA,
                 "cltrain new: '%s' holds flat images and masks; training with masks needs volumes (.nii, "
                 ".nii.gz), and photos are trained on as a folder for each class",
                 n->path);
    if (clt_is_cifar_folder(n->path) || clt_is_image_folder(n->path) || clt_is_image_folder(train))
        return new_config_images(n);
    if (holds_volumes(n->path))
        return new_config_volumes(n);
    if (clt_folder_has_shards(n->path, "train"))
        return new_config_tokens(n);
    if (clt_folder_has_images(n->path))
        CLT_FAIL(CLT_EDATA,
                 "cltrain new: '%s' holds images, but no folders of classes; put them into %s/CLASS/name.jpg",
                 n->path, n->path);
    return new_config_text(n);
}

/* Refuses a file of an unknown kind with zero bytes at its beginning: it is not text. */
static clt_status check_no_zeros(const char *path)
{
    char start[4096];
    size_t got = 0;
    CLT_TRY(clt_file_read_start(path, start, sizeof start, CLT_EDATA, &got));
    if (memchr(start, '\0', got))
        CLT_FAIL(CLT_EDATA,
                 "cltrain new: '%s' is not text, and neither its content nor its name shows another kind of "
                 "data; docs/data.md lists what can be trained on",
                 path);
    return CLT_OK;
}

/* True if a file begins as a list of records. */
static bool is_list(const char *path)
{
    char start[4096];
    size_t got = 0;
    bool list = clt_file_read_start(path, start, sizeof start, CLT_EDATA, &got) == CLT_OK &&
                clt_json_starts_list(start, got);
    clt_error_clear();
    return list;
}

static clt_status look_at_file(new_config *n)
{
    static const char *const tables[] = {".csv", ".tsv", NULL}, *const configs[] = {".json", NULL},
                             *const shards[] = {".bin", NULL}, *const texts[] = {".txt",   ".md",   ".text",
                                                                                 ".jsonl", ".html", ".ndjson",
                                                                                 ".tex",   ".rst",  NULL};
    const clt_source_type *type;
    if (is_named(n->path, tables))
        return new_config_table(n);
    if (is_named(n->path, configs) && is_list(n->path))
        return new_config_text(n);
    if (is_named(n->path, configs))
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain new: '%s' is named like a config; to train with a config: cltrain train %s; "
                 "records are a list of JSON, or JSON Lines in a file whose name ends with .jsonl",
                 n->path, n->path);
    if (is_named(n->path, shards))
        return new_config_tokens(n);
    if (is_named(n->path, texts) || n->json_key || n->tokenizer)
        return new_config_text(n);
    if (clt_is_image_pack(n->path))
        return new_config_images(n);
    if (clt_is_image_file(n->path))
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain new: '%s' is one image; name the folder that holds a folder for each class",
                 n->path);
    if (clt_rows_guess_type(n->path, NULL, "data.type=", &type) != CLT_OK) {
        clt_error_clear(); /* neither name nor content shows the kind: it may be text */
        CLT_TRY(check_no_zeros(n->path));
        return new_config_text(n);
    }
    if (strcmp(type->format->name, "csv") == 0)
        return new_config_table(n);
    if (strcmp(type->format->name, "idx") == 0 || strcmp(type->format->name, "npy") == 0)
        return new_config_arrays(n, type->format->name);
    if (strcmp(type->format->name, "nifti") == 0)
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain new: '%s' is one volume; name the folder that holds images/ and masks/, or a "
                 "folder for each class",
                 n->path);
    CLT_FAIL(CLT_EUSAGE, "cltrain new: no config is written for files of type %s; docs/configs.md shows one",
             type->format->name);
}

/* Refuses an option that has no meaning for the kind of data that was found. */
static clt_status check_options(const new_config *n, const char *type)
{
    bool text = strcmp(type, "\"text\"") == 0, tokens = strcmp(type, "\"tokens\"") == 0;
    bool arrays = strcmp(type, "\"npy\"") == 0 || strcmp(type, "\"idx\"") == 0;
    const char *wrong = n->column && strcmp(type, "\"csv\"") != 0 ? "--target"
                        : n->json_key && !text                    ? "--json-key"
                        : n->tokenizer && !text && !tokens        ? "--tokenizer"
                        : n->targets && !arrays                   ? "a second file, TARGETS,"
                                                                  : NULL;
    if (wrong)
        CLT_FAIL(CLT_EUSAGE, "cltrain new: %s does not belong to '%s', which is data.type %s", wrong, n->path,
                 type);
    return CLT_OK;
}

clt_status new_config_look(new_config *n)
{
    bool pattern = strpbrk(n->path, "*?[") != NULL || n->path[0] == '@';
    if (!clt_file_exists(n->path) && !clt_is_directory(n->path) && !pattern)
        CLT_FAIL(CLT_EDATA, "cltrain new: '%s': there is no such file or folder", n->path);
    if (!clt_is_directory(n->path) && clt_rows_once(n->path))
        CLT_FAIL(CLT_EDATA,
                 "cltrain new: '%s' is not a regular file and can be read only once; save it as a file",
                 n->path);
    CLT_TRY(clt_is_directory(n->path)              ? look_at_folder(n)
            : pattern && !clt_file_exists(n->path) ? new_config_text(n)
                                                   : look_at_file(n));
    return check_options(n, draft_value(&n->draft, "data.type"));
}
