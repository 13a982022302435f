/* SPDX-License-Identifier: Apache-2.0
 *
 * Implements cltrain data show, and the parts of `prepare` and `verify` that work on images: packing a
 * folder, decoding every sample. */
#include "cli/data/data_images.h"
#include "cli/screen/terminal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/screen/args.h"
#include "cli/screen/console.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/data/images/image_source.h"
#include "engine/data/open/rows.h"
#include "engine/data/pixels/image_folder.h"
#include "engine/data/volumes/volume_list.h"
#include "engine/data/volumes/volumes.h"
#include "engine/files/fileio.h"
#include "engine/pretrained/pretrained.h"
#include "engine/files/remote_files.h"
#include "engine/json/json.h"
#include "engine/report/page/data_page.h"

bool data_is_images(const char *path)
{
    return clt_is_image_pack(path) || clt_is_image_folder(path) || clt_is_image_file(path) ||
           clt_is_cifar_folder(path);
}

clt_status data_refuse_folder(const char *folder, const char *command)
{
    CLT_SCOPED(clt_file_list) names = {0};
    CLT_SCOPED(clt_str) parts = {0};
    CLT_TRY(clt_folder_names(folder, &names));
    for (size_t i = 0; i < names.count; i++) {
        CLT_FREED char *path = NULL;
        CLT_TRY(clt_path_join(folder, names.name[i], &path));
        if (clt_is_image_folder(path))
            clt_str_printf(&parts, "%s'%s'", parts.length ? " or " : "", path);
    }
    CLT_TRY(clt_str_check(&parts));
    if (parts.length)
        CLT_FAIL(CLT_EDATA, "'%s' holds folders of images for training or evaluation; name one of them: %s",
                 folder, parts.text);
    CLT_FAIL(CLT_EDATA,
             "'%s' is not a folder that %s reads: of images (CLASS/NAME.jpg or .png), of volumes "
             "(images/NAME.nii.gz and masks/NAME.nii.gz, or CLASS/NAME.nii.gz) or of token shards (.bin); of "
             "texts and tables name a config, which 'cltrain new %s' writes",
             folder, command, folder);
}

static void ignore_volume(void *context, const char *path, clt_status status)
{
    (void)context;
    (void)path;
    (void)status;
}

/* True if a folder may hold volumes. If it holds something else, opening it fails with a message. */
static bool may_hold_volumes(const char *folder)
{
    CLT_SCOPED(clt_arena) *arena = NULL;
    clt_volume_list list;
    const clt_volume_list_options options = {.path = folder, .key = "data show", .tell = ignore_volume};
    CLT_KEEP_ERROR();
    return clt_arena_create(&arena) != CLT_OK || clt_volume_list_open(arena, &options, &list) != CLT_OK ||
           list.count > 0;
}

/* Makes a config that consists of this data and the overrides. */
static clt_status config_of_data(const char *type, const char *path, const char *const *overrides,
                                 int n_overrides, clt_config **out)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_json_writer w = clt_json_writer_make(&text, 0);
    const clt_source_type *known = clt_rows_type(type);
    clt_str_append(&text, "{\"model\":{\"type\":\"graph\",\"layers\":[{\"op\":\"mse\"}]},\"data\":");
    clt_jw_object(&w);
    clt_jw_kstring(&w, "type", type);
    clt_jw_kstring(&w, "path", path);
    if (known && clt_config_part_has(known->format, "data.split"))
        clt_jw_kint(&w, "split", 0); /* unless an option asks for it, no part is kept for evaluation */
    clt_jw_end_object(&w);
    clt_str_append(&text, "}");
    CLT_TRY(clt_str_check(&text));
    return clt_config_parse(text.text, path, overrides, n_overrides, out);
}

clt_status data_images_config(const char *path, const char *const *overrides, int n_overrides,
                              clt_config **out)
{
    if (data_is_images(path))
        return config_of_data(clt_is_cifar_folder(path) ? "cifar" : "images", path, overrides, n_overrides,
                              out);
    return data_load_config(path, overrides, n_overrides, NULL, out);
}

/* --- checking --- */

#define AT_ONCE 512

typedef struct checking {
    const clt_source *source;
    int64_t first;
    clt_error *errors;
} checking;

static void check_range(void *context, uint64_t first, uint64_t last)
{
    checking *c = context;
    for (uint64_t i = first; i < last; i++) {
        clt_status status = c->source->type->check_sample(c->source, c->first + (int64_t)i);
        if (status == CLT_OK)
            c->errors[i].status = CLT_OK;
        else
            clt_error_take(status, &c->errors[i]);
    }
}

clt_status data_check_samples(const clt_source *source, data_check *check)
{
    CLT_FREED clt_error *errors = NULL;
    CLT_TRY(clt_alloc(&errors, AT_ONCE, sizeof *errors, "messages"));
    checking c = {.source = source, .errors = errors};
    for (; c.first < source->samples; c.first += AT_ONCE) {
        int64_t left = source->samples - c.first, n = left < AT_ONCE ? left : AT_ONCE;
        CLT_TRY(check->progress(check->context, c.first, source->samples));
        clt_for_ranges((uint64_t)n, 4, "clt-check", check_range, &c);
        for (int64_t i = 0; i < n; i++) {
            check->good += errors[i].status == CLT_OK;
            if (errors[i].status == CLT_OK)
                continue;
            clt_status status = clt_error_put(&errors[i]);
            if (status != CLT_EDATA) /* an error such as missing memory, which is not the sample's fault */
                return status;
            check->n_bad++;
            check->bad(check->context);
        }
    }
    return CLT_OK;
}

/* --- prepare --- */

typedef struct pack_view {
    const cmd_context *context;
    console *console;
} pack_view;

static clt_status on_packed(void *context, int64_t done, int64_t total)
{
    pack_view *v = context;
    char text[80];
    if (v->context->stop && atomic_load(v->context->stop))
        CLT_FAIL(CLT_EINTERRUPTED, "packing images: stopped by a signal; nothing was kept, run it again");
    (void)snprintf(text, sizeof text, "packing images: %lld of %lld", (long long)done, (long long)total);
    console_observer(v->console).progress(v->console, text, done, total);
    return CLT_OK;
}

static void on_left_out(void *context, const char *line)
{
    pack_view *v = context;
    console_clear(v->console);
    terminal_say("skipped: %s\n", line);
}

clt_status data_pack(const cmd_context *context, clt_pack_options *o)
{
    console c;
    clt_pack_result r;
    char bytes[32];
    pack_view view = {.context = context, .console = &c};
    console_init(&c, context);
    o->progress = on_packed;
    o->message = on_left_out;
    o->context = &view;
    clt_status status = clt_pack_write(o, &r);
    console_close(&c);
    CLT_TRY(status);
    terminal_say("%s: %lld image%s of %lld class%s, %s", o->out, (long long)r.images, CLT_PLURAL(r.images),
                 (long long)r.classes, CLT_PLURAL_ES(r.classes), console_bytes(r.bytes, bytes, sizeof bytes));
    if (o->resize > 0)
        terminal_say(", as pixels whose shorter side is at most %d", o->resize);
    if (r.left_out > 0)
        terminal_say("; %lld image%s that cannot be decoded %s skipped", (long long)r.left_out,
                     CLT_PLURAL(r.left_out), r.left_out == 1 ? "was" : "were");
    terminal_say("\nto train on it, set data.type=images data.path=%s\n", o->out);
    return CLT_OK;
}

/* --- show --- */

/* True if a file is named like a config (.json) or begins like one. */
static bool is_config(const char *path)
{
    if (clt_stem(path, ".json"))
        return true;
    FILE *file = fopen(path, "rb");
    int c = file ? fgetc(file) : '{'; /* not readable: loading it as a config then says what is wrong */
    while (c == ' ' || c == '\t' || c == '\r' || c == '\n')
        c = fgetc(file);
    if (file)
        fclose(file);
    return c == '{' || c == EOF;
}

clt_status data_load_config(const char *path, const char *const *overrides, int n_overrides, const char *init,
                            clt_config **out)
{
    const clt_start start = {.init = init, .training = true};
    return clt_start_load(path, overrides, n_overrides, &start, out);
}

clt_status data_no_init(const char *path, const char *init)
{
    if (init)
        CLT_FAIL(CLT_EUSAGE,
                 "--init %.200s: --init fills in missing keys of a CONFIG, but '%s' is not a CONFIG", init,
                 path);
    return CLT_OK;
}

/* The data.type that an override sets; NULL: none does. */
static const char *given_type(const args_result *r)
{
    static const char key[] = "data.type=";
    const char *type = NULL;
    for (int i = 0; i < r->n_overrides; i++)
        if (strncmp(r->overrides[i], key, sizeof key - 1) == 0)
            type = r->overrides[i] + sizeof key - 1;
    return type;
}

/* Loads the config at `path`, or makes a config for the data there: images, a folder of volumes, or a file of
 * samples. */
static clt_status show_config(const char *path, const args_result *r, const char *init, clt_config **out)
{
    const clt_source_type *type;
    const char *name = given_type(r);
    bool folder = clt_is_directory(path);
    if (init && !folder && is_config(path))
        return data_load_config(path, r->overrides, r->n_overrides, init, out);
    CLT_TRY(data_no_init(path, init));
    if (data_is_images(path) || (!folder && is_config(path)))
        return data_images_config(path, r->overrides, r->n_overrides, out);
    if (!name && !folder) {
        CLT_TRY(clt_rows_guess_type(path, NULL, "data.type=", &type));
        name = type->format->name;
    }
    if (!name && !may_hold_volumes(path))
        return data_refuse_folder(path, "data show");
    return config_of_data(name ? name : "nifti", path, r->overrides, r->n_overrides, out);
}

/* Parses a window such as "-160,240". */
static clt_status read_window(const char *text, clt_picture_window *out)
{
    char *end;
    *out = (clt_picture_window){.known = true, .low = clt_strtod(text, &end)};
    bool good = end != text && *end == ',';
    const char *second = end + 1;
    if (good)
        out->high = clt_strtod(second, &end);
    if (!good || end == second || *end || !isfinite(out->low) || !isfinite(out->high) ||
        out->low >= out->high)
        CLT_FAIL(
            CLT_EUSAGE,
            "cltrain data show: --window '%s' is not a window; give the values that become black and white, "
            "the lower one first, such as --window=-160,240",
            text);
    return CLT_OK;
}

/* Converts the window of a volume's config to the values that samples have after normalisation. */
static clt_status window_of_config(const clt_config *config, clt_picture_window *out)
{
    clt_volumes_cover cover;
    CLT_TRY(clt_volumes_cover_read(config, &cover));
    if (!cover.known || !cover.intensity.window)
        return CLT_OK;
    float ends[2] = {cover.intensity.low, cover.intensity.high};
    clt_intensity_apply(&cover.intensity, ends, 2);
    *out = (clt_picture_window){ends[0] < ends[1], (double)ends[0], (double)ends[1]};
    return CLT_OK;
}

typedef struct show_args {
    const char *title, *out, *window;
    int64_t samples;
} show_args;

static clt_status write_page(const show_args *a, const clt_config *config)
{
    CLT_SCOPED(clt_source) *train = NULL;
    CLT_SCOPED(clt_source) *eval = NULL;
    CLT_SCOPED(clt_str) page = {0};
    clt_data_page p = {.title = a->title,
                       .seed = (uint64_t)clt_config_int(config, "train.seed"),
                       .shuffle = clt_config_bool(config, "data.shuffle"),
                       .samples = (int)a->samples,
                       .now = clt_wall_time(),
                       .window_from = a->window ? "--window" : "data.window_low and data.window_high"};
    CLT_TRY(a->window ? read_window(a->window, &p.window) : window_of_config(config, &p.window));
    CLT_TRY(clt_source_open(config, CLT_SPLIT_TRAIN, &train));
    if (clt_source_has_eval(config))
        CLT_TRY(clt_source_open(config, CLT_SPLIT_EVAL, &eval));
    p.train = train;
    p.eval = eval;
    CLT_TRY(clt_data_page_write(&p, &page));
    return clt_file_write(a->out, page.text, page.length);
}

clt_status data_show(cmd_context *context, int argc, char **argv)
{
    show_args a = {.samples = 36};
    const char *init = NULL;
    (void)context;
    const args_option options[] = {
        ARGS_TEXT("--out", "FILE", a.out, "the page to write, such as samples.html"),
        ARGS_INT("--samples", "N", a.samples, 1, 1000, "samples of the training data on it (36)"),
        ARGS_TEXT("--init", "PATH", init,
                  "weights that the training starts from, as in 'train'; the CONFIG may leave out the "
                  "keys of the model and the tokenizer that these weights tell"),
        ARGS_TEXT("--window", "LOW,HIGH", a.window,
                  "values of x that become black and white, such as --window=-160,240 (volumes: "
                  "data.window_low and data.window_high; else the range of the samples)"),
        ARGS_END};
    const args_usage usage = ARGS_USAGE(
        "data show", "CONFIG|FOLDER|FILE [section.key=value ...]", 1, 1, options,
        "Writes a page (HTML) of samples as training sees them, augmented, with their classes, or as "
        "text with what is trained marked: of a config, a folder of images or a packed one, a folder of "
        "volumes (slices, with their "
        "masks), a file of samples (npy, idx, raw, a volume).");
    args_result r;
    CLT_TRY(args_parse(&usage, argc, argv, &r));
    if (r.help)
        return CLT_OK;
    if (!a.out)
        CLT_FAIL(CLT_EUSAGE, "cltrain data show: name the page to write with --out FILE");
    CLT_TRY(clt_refuse_remote(a.out));
    CLT_SCOPED(clt_config) *config = NULL;
    CLT_TRY(show_config(r.operands[0], &r, init, &config));
    a.title = r.operands[0];
    CLT_TRY(write_page(&a, config));
    terminal_say("%s: open it in a browser\n", a.out);
    return CLT_OK;
}
