/* SPDX-License-Identifier: Apache-2.0
 *
 * The format images: a folder with a folder for each class (torchvision's ImageFolder), or a pack, the
 * file that `cltrain data prepare` makes of such a folder. It only locates images; image_source.c does
 * the rest. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/data/fingerprint.h"
#include "engine/data/images/image_pack.h"
#include "engine/data/images/image_source.h"
#include "engine/data/pixels/image_folder.h"
#include "engine/files/fileio.h"
#include "engine/files/fileio_error.h"

#define LARGEST ((int64_t)1 << 30) /* limit for an encoded image, in bytes */
#define SAMPLED 256                /* number of files whose content is part of the fingerprint */
#define SAMPLED_BYTES 16384        /* bytes of each such file, from its beginning */

typedef struct images_state {
    clt_image_state base; /* first member */
    const char *path;
    bool packed, alone; /* alone: `path` is a single image, to be predicted */
    clt_image_list list;
    clt_image_pack pack;
    int32_t *number; /* evaluation: each class's number in the training data; NULL: the same number */
} images_state;

static const char *name_of(const images_state *s, int64_t index)
{
    if (s->alone)
        return "";
    return s->packed ? clt_pack_name(&s->pack, index) : s->list.names.text + s->list.files[index].name;
}

/* Reads the first `most` bytes of a file, or all of it, into this thread's memory. */
static clt_status read_file(const char *path, int64_t most, clt_stored_image *out)
{
    struct stat info;
    int fd;
    CLT_TRY(clt_open_start(path, CLT_EDATA, (uint64_t)most, &fd, &info));
    clt_status status = CLT_OK;
    uint8_t *bytes = NULL;
    size_t size = 0;
    if (!S_ISREG(info.st_mode) || (info.st_size > LARGEST && most >= LARGEST))
        status =
            clt_fail(CLT_EDATA, __FILE__, __LINE__,
                     "it has %lld bytes and is too large, or is not a regular file; an image is a regular "
                     "file of at most 1 GiB",
                     (long long)info.st_size);
    else {
        size = (size_t)(info.st_size < most ? info.st_size : most);
        bytes = clt_image_scratch(CLT_SCRATCH_FILE, size + 1);
        status = bytes ? CLT_OK : CLT_ENOMEM;
    }
    size_t got = 0;
    while (status == CLT_OK && got < size) {
        ssize_t n = read(fd, bytes + got, size - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            status = clt_fail_errno(CLT_EDATA, errno, "reading it");
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    (void)close(fd);
    *out = (clt_stored_image){.kind = CLT_STORED_ENCODED, .bytes = bytes, .size = got};
    return status;
}

static clt_status path_of(const images_state *s, int64_t index, char *path, size_t size)
{
    int n = snprintf(path, size, "%s/%s", s->path, name_of(s, index));
    if (n < 0 || (size_t)n >= size)
        CLT_FAIL(CLT_EDATA, "its path is longer than %zu bytes", size - 1);
    return CLT_OK;
}

static clt_status images_get(const clt_source *source, int64_t index, clt_stored_image *out)
{
    const images_state *s = source->state;
    char path[4096];
    if (s->packed) {
        clt_pack_image(&s->pack, index, out);
        return CLT_OK;
    }
    if (s->alone)
        return read_file(s->path, LARGEST, out);
    CLT_TRY(path_of(s, index, path, sizeof path));
    return read_file(path, LARGEST, out);
}

static void images_want(const clt_source *source, int64_t index)
{
    const images_state *s = source->state;
    char path[4096];
    if (s->packed)
        clt_pack_want(&s->pack, index);
    else if (!s->alone && path_of(s, index, path, sizeof path) == CLT_OK)
        clt_file_want(path);
}

static int32_t images_label(const clt_source *source, int64_t index)
{
    const images_state *s = source->state;
    int32_t class_number =
        s->packed ? s->pack.records[index].class_number : s->list.files[index].class_number;
    return s->number ? s->number[class_number] : class_number;
}

static clt_status images_check(const clt_source *source, int64_t index)
{
    const images_state *s = source->state;
    return s->packed ? clt_pack_check(&s->pack, index) : CLT_OK;
}

static clt_status one_path(const clt_config *config, const char *key, const char **out)
{
    int n = clt_config_list_count(config, key);
    if (n != 1)
        CLT_FAIL(CLT_ECONFIG,
                 "opening the data: data.type images takes one folder or file in %s, %d were given", key, n);
    *out = clt_config_list_string(config, key, 0);
    return CLT_OK;
}

typedef enum images_for { FOR_SAMPLES, FOR_CLASSES, FOR_INPUT } images_for;

/* Opens a folder, a pack or a single image. *names, *count: its classes, if it has any. */
static clt_status open_set(clt_arena *arena, const char *path, images_for what, images_state *s,
                           const char *const **names, int64_t *count)
{
    char *own = clt_arena_strdup(arena, path);
    if (!own)
        return CLT_ENOMEM;
    for (size_t n = strlen(own); n > 1 && own[n - 1] == '/'; n--)
        own[n - 1] = '\0'; /* names of files are appended after a slash */
    s->path = own;
    s->alone = what != FOR_CLASSES && clt_is_image_file(path);
    if (s->alone)
        return CLT_OK;
    CLT_TRY(clt_image_refuse_other_file(path));
    s->packed = clt_is_regular(path);
    if (s->packed) {
        CLT_TRY(clt_pack_open(path, arena, &s->pack));
        *names = s->pack.classes;
        *count = s->pack.n_classes;
        return CLT_OK;
    }
    if (what == FOR_INPUT)
        return clt_image_list_all(path, &s->list);
    CLT_TRY(clt_image_list_folder(path, &s->list));
    *names = (const char *const *)s->list.classes;
    *count = (int64_t)s->list.n_classes;
    return CLT_OK;
}

static void close_set(images_state *s)
{
    clt_pack_close(&s->pack);
    clt_image_list_free(&s->list);
}

CLT_SCOPED_VALUE(images_state, close_set)

/* Numbers the classes of evaluation data as in the training data. */
static clt_status match_training(clt_source *source, const clt_config *config, images_state *s)
{
    CLT_SCOPED(images_state) training = {.path = NULL};
    const char *path;
    const char *const *names = NULL;
    int64_t count = 0;
    CLT_TRY(one_path(config, "data.path", &path));
    CLT_TRY(open_set(source->arena, path, FOR_CLASSES, &training, &names, &count));
    s->number = clt_arena_alloc(source->arena, (size_t)source->n_class_names * sizeof *s->number + 1);
    const char **kept = clt_arena_alloc(source->arena, (size_t)count * sizeof *kept + 1);
    if (!s->number || !kept)
        return CLT_ENOMEM;
    CLT_TRY(clt_images_match(source->class_names, source->n_class_names, names, count, s->number));
    for (int64_t i = 0; i < count; i++)
        if (!(kept[i] = clt_arena_strdup(source->arena, names[i])))
            return CLT_ENOMEM;
    source->class_names = kept;
    source->n_class_names = count;
    return CLT_OK;
}

static clt_status images_open(clt_source *source, const clt_config *config, clt_split split)
{
    images_state *s = clt_arena_alloc(source->arena, sizeof *s);
    const char *path;
    char others[64] = "";
    if (!s)
        return CLT_ENOMEM;
    source->state = s;
    s->base.get = images_get;
    s->base.label = images_label;
    s->base.check = images_check;
    const char *key = split == CLT_SPLIT_EVAL ? "data.eval_path" : "data.path";
    CLT_TRY(one_path(config, key, &path));
    images_for what = split == CLT_SPLIT_EVAL    ? FOR_CLASSES
                      : split >= CLT_SPLIT_INPUT ? FOR_INPUT
                                                 : FOR_SAMPLES;
    clt_status status = open_set(source->arena, path, what, s, &source->class_names, &source->n_class_names);
    if (split == CLT_SPLIT_EVAL) /* `path` may be an image file, for prediction */
        status = clt_fail_prefix(status, "%s", key);
    CLT_TRY(status);
    s->base.alone = s->alone || what == FOR_INPUT;
    source->samples = s->alone ? 1 : s->packed ? s->pack.count : (int64_t)s->list.count;
    source->bytes = s->packed ? (int64_t)s->pack.mapping.size : (int64_t)s->list.bytes;
    int64_t classes = source->n_class_names;
    if (split == CLT_SPLIT_EVAL)
        CLT_TRY(match_training(source, config, s));
    CLT_TRY(clt_images_begin(source, &s->base, config, split, 0, 0));
    if (split == CLT_SPLIT_INPUT && s->list.others > 0)
        CLT_WARN_ONCE("'%s': %lld other file%s skipped: %s not end in .jpg, .jpeg or .png", path,
                      (long long)s->list.others, s->list.others == 1 ? " is" : "s are",
                      s->list.others == 1 ? "its name does" : "their names do");
    if (split == CLT_SPLIT_INPUT)
        clt_images_warn_low_bits(source);
    if (s->list.others > 0)
        (void)snprintf(others, sizeof others, " (%lld other file%s)", (long long)s->list.others,
                       CLT_PLURAL(s->list.others));
    source->description = clt_arena_printf(
        source->arena, "images: %lld image%s of %lld class%s%s from '%s', as (3,%d,%d) u8",
        (long long)source->samples, CLT_PLURAL(source->samples), (long long)classes, CLT_PLURAL_ES(classes),
        others, s->path, s->base.augment.height, s->base.augment.width);
    return source->description ? CLT_OK : CLT_ENOMEM;
}

static void images_close(clt_source *source)
{
    images_state *s = source->state;
    if (!s)
        return;
    clt_images_close(source);
    close_set(s);
}

static void images_locate(const clt_source *source, int64_t index, int field, clt_str *out)
{
    const images_state *s = source->state;
    (void)field;
    if (s->alone) {
        clt_str_printf(out, "'%s'", s->path);
        return;
    }
    clt_str_printf(out, s->packed ? "'%s' in '%s'" : "'%s/%s'", s->packed ? name_of(s, index) : s->path,
                   s->packed ? s->path : name_of(s, index));
}

static void images_file_of(const clt_source *source, int64_t index, clt_str *out)
{
    const images_state *s = source->state;
    if (s->alone)
        clt_str_append(out, s->path);
    else
        clt_str_printf(out, s->packed ? "%s%s" : "%s/%s", s->packed ? "" : s->path, name_of(s, index));
}

/* Adds to the fingerprint a pack's content, or a folder's names (with the classes), the sizes of all images
 * and the first bytes of at most SAMPLED evenly spaced ones. */
static clt_status images_fingerprint(const clt_source *source, clt_hash64_state *state)
{
    const images_state *s = source->state;
    if (s->alone)
        return CLT_OK;
    if (s->packed) {
        clt_fingerprint_add_mapped(state, &s->pack.mapping);
        return CLT_OK;
    }
    clt_hash64_add(state, s->list.names.text, s->list.names.length);
    for (int64_t i = 0; i < source->samples; i++)
        clt_hash64_add(state, &s->list.files[i].size, sizeof s->list.files[i].size);
    int64_t n = source->samples < SAMPLED ? source->samples : SAMPLED;
    for (int64_t i = 0; i < n && source->remote; i++)
        images_want(source, n > 1 ? (int64_t)((__int128)i * (source->samples - 1) / (n - 1)) : 0);
    for (int64_t i = 0; i < n; i++) {
        clt_stored_image head = {0};
        char path[4096];
        int64_t at = n > 1 ? (int64_t)((__int128)i * (source->samples - 1) / (n - 1)) : 0;
        clt_status status = path_of(s, at, path, sizeof path);
        if (status == CLT_OK)
            status = read_file(path, SAMPLED_BYTES, &head);
        if (status == CLT_OK)
            clt_hash64_add(state, head.bytes, head.size);
        if (source->remote) /* a local file that cannot be read is skipped */
            CLT_TRY(status);
    }
    clt_error_clear();
    return CLT_OK;
}

static clt_status images_shapes(const clt_config *config, const struct clt_tokenizer *tokenizer,
                                int64_t samples, clt_source *source)
{
    (void)tokenizer;
    (void)samples;
    return clt_images_shapes(source, config, 0, 0);
}

static const clt_config_key images_keys[] = {
    CLT_KEY_STRINGS(
        "data.path", "[]",
        "folder of the training images, CLASS/name.jpg, or the file that data prepare made of it"),
    CLT_KEY_STRINGS("data.eval_path", "[]",
                    "the same of the evaluation images; its classes have the same names"),
    CLT_IMAGE_KEYS,
    CLT_KEY_END,
};
static const char *const images_required[] = {"data.path", NULL};

const clt_config_part clt_format_images = {
    .name = "images",
    .help = "JPEG and PNG images in a folder for each class, or packed into one file by data prepare",
    .keys = images_keys,
    .required = images_required,
    .check = clt_images_rules,
};

static clt_likeness images_likeness(const unsigned char *first, size_t n)
{
    bool pack = n >= CLT_INPUT_BYTES && memcmp(first, CLT_PACK_MAGIC, CLT_INPUT_BYTES) == 0;
    return pack || clt_image_begins(first, n) ? CLT_SURE : CLT_UNLIKE;
}

static const char *const images_ends[] = {".jpg", ".jpeg", ".JPG", ".JPEG", ".png", ".PNG", NULL};

const clt_source_type clt_source_images = {
    .format = &clt_format_images,
    .open = images_open,
    .close = images_close,
    .read = clt_images_read,
    .class_of = clt_images_class_of,
    .left_out = clt_images_left_out,
    .locate = images_locate,
    .file_of = images_file_of,
    .check_bound = clt_images_check_bound,
    .check_sample = clt_images_check_sample,
    .want = images_want,
    .fingerprint = images_fingerprint,
    .advise = clt_images_advise,
    .holds_targets = true,
    .eval_hint = "data.eval_path",
    .layout = "images lie in FOLDER/CLASS/name.jpg; of ImageNet, put ILSVRC2012's training images into "
              "imagenet/train/n01440764/*.JPEG ... and its validation images, sorted into folders of the "
              "same names, into imagenet/val",
    .shapes = images_shapes,
    .shapes_known = clt_images_shapes_known,
    .input_ends = images_ends,
    .input_likeness = images_likeness,
    .input_like_run = true,
};
