/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain predict RUN [FILE...]: predictions of a trained classifier or regression for samples in files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/screen/args.h"
#include "cli/screen/console.h"
#include "cli/screen/predict_texts_out.h"
#include "cli/screen/terminal.h"
#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/data/data.h"
#include "engine/data/open/rows.h"
#include "engine/data/volumes/nifti.h"
#include "engine/data/volumes/volume_file.h"
#include "engine/files/fileio.h"
#include "engine/train/eval/predict_volume.h"

typedef struct predict_args {
    const char *input, *type, *out, *format, *device, *caps;
    int64_t top;
    const char *files[ARGS_MAX + 1];
    int n_files;
    bool held_out; /* the input is the rows that the run's data.split keeps for evaluation */
    const clt_source_type *rows_type; /* source type of the rows; NULL: guessed from content and name */
    uint32_t caps_mask;
    console console;
    clt_observer observer; /* shows on the console the progress of the start, or of a volume */
} predict_args;

/* Uses all paths of a config key as input, in their order. */
static clt_status take_paths(predict_args *a, const clt_config *c, const char *key)
{
    int n = clt_config_list_count(c, key);
    if (n > ARGS_MAX)
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain predict: %s names %d files, and one call predicts at most %d; name some of them as "
                 "FILE",
                 key, n, ARGS_MAX);
    while (a->n_files < n) {
        a->files[a->n_files] = clt_config_list_string(c, key, a->n_files);
        a->n_files++;
    }
    terminal_say_to(stderr, "input: the run's evaluation data, ");
    for (int i = 0; i < n; i++)
        terminal_say_to(stderr, "%s%s", i > 0 ? ", " : "", a->files[i]);
    terminal_say_to(stderr, "\n");
    return CLT_OK;
}

/* Uses the rows of a table that data.split keeps for evaluation. Not possible for texts. */
static clt_status take_held_out(predict_args *a, const clt_saved_run *saved)
{
    const clt_source_type *type = clt_source_type_of(saved->config);
    a->files[a->n_files++] = clt_config_list_string(saved->config, "data.path", 0);
    if (!type->line_of)
        CLT_FAIL(
            CLT_EUSAGE,
            "cltrain predict: the run's evaluation data is a part of its training data, %s (data.split), "
            "which 'cltrain eval' evaluates; name a FILE to predict",
            a->files[0]);
    CLT_TRY(clt_saved_run_need_data(saved, false, "predicting"));
    a->held_out = true;
    terminal_say_to(stderr, "input: the rows of %s that data.split keeps for evaluation\n", a->files[0]);
    return CLT_OK;
}

/* Chooses the files to read: --input, the operands after RUN, else the run's own evaluation data. */
static clt_status choose_files(predict_args *a, const args_result *r, const clt_saved_run *saved)
{
    const clt_config *c = saved->config;
    if (a->input)
        a->files[a->n_files++] = a->input;
    for (int i = 1; i < r->n_operands; i++)
        a->files[a->n_files++] = r->operands[i];
    if (a->n_files > 0)
        return CLT_OK;
    /* The evaluation data may be in the folder data.path (`beside`), or a part of the training data. */
    const clt_source_type *type = clt_source_type_of(c);
    bool own = clt_config_list_count(c, "data.eval_path") > 0;
    bool splits = clt_config_part_has(type->format, "data.split");
    bool beside = !own && type->input_ends && type->has_eval && !splits && type->has_eval(c);
    if (!own && splits && clt_config_float(c, "data.split") > 0)
        return take_held_out(a, saved);
    if (!own && !beside)
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain predict: name what to predict: --input FILE (idx, npy, csv, raw, an image or a "
                 "volume, or a folder of either; JSON Lines of texts), or --input - for lines of numbers on "
                 "the standard input; "
                 "the run has no evaluation data to take instead");
    CLT_TRY(clt_saved_run_need_data(saved, true, "predicting"));
    if (!a->rows_type)
        a->rows_type = clt_rows_type(clt_config_string(c, "data.type"));
    return take_paths(a, c, own ? "data.eval_path" : "data.path");
}

/* Checks that samples of the file have the shape of the model's input. */
static clt_status check_shape(const clt_predictor *p, const char *path, const clt_rows_facts *facts)
{
    char has[CLT_SHAPE_TEXT], wants[CLT_SHAPE_TEXT];
    if (!facts->shaped || clt_shape_equal(&facts->shape, &p->input))
        return CLT_OK;
    bool same = clt_shape_elements(&facts->shape) == p->elements;
    if (same && (p->flattens || p->elements == 1))
        return CLT_OK;
    clt_shape_text(&facts->shape, has, sizeof has);
    clt_shape_text(&p->input, wants, sizeof wants);
    if (!same && facts->samples * clt_shape_elements(&facts->shape) == p->elements)
        CLT_FAIL(
            CLT_EDATA,
            "predicting '%s': its first dimension, %lld, counts samples, so a sample has the shape %s; the "
            "run was trained on %s. For a single sample put a dimension of 1 in front of the others",
            path, (long long)facts->samples, has, wants);
    CLT_FAIL(
        CLT_EDATA, "predicting '%s': its samples have the shape %s, the run was trained on %s%s", path, has,
        wants,
        same ? "; the number of elements is the same, but the model does not flatten them: reshape the array"
             : "");
}

static clt_status open_rows(const predict_args *a, const clt_predictor *p, const char *path, bool again,
                            clt_rows **out)
{
    const clt_saved_run *saved = p->saved;
    if (a->held_out)
        return clt_rows_open_held_out(&p->input, saved->config, saved->facts.table, again, out);
    return (again ? clt_rows_open_again : clt_rows_open)(path, a->rows_type, &p->input, saved->config,
                                                         saved->facts.table, out);
}

/* Warns if the table has changed since the run was saved, because data.split then keeps other rows. No
 * warning for a table that the command line names, which is expected to differ. */
static void warn_of_other_table(const clt_saved_run *saved, const clt_rows *rows, const char *path)
{
    char now[CLT_HASH64_TEXT];
    const char *then = saved->facts.fingerprint;
    clt_rows_fingerprint(rows, now);
    if (*then && *now && strcmp(then, now) != 0 &&
        strcmp(clt_config_origin(saved->config, "data.path"), "override") != 0)
        CLT_WARN("'%s' has other content than when the run was saved, so the rows that data.split keeps are "
                 "others, and the run may have been trained on them",
                 path);
}

/* Checks the shapes and types of all inputs. Sets *files if one is a folder with a file for each sample,
 * so that each prediction must name its file. */
static clt_status check_files(const predict_args *a, const clt_predictor *p, bool *files)
{
    for (int i = 0; i < a->n_files; i++) {
        CLT_SCOPED(clt_rows) *rows = NULL;
        const char *file = NULL;
        if (clt_rows_once(a->files[i]))
            continue;
        CLT_TRY(open_rows(a, p, a->files[i], false, &rows));
        if (a->held_out)
            warn_of_other_table(p->saved, rows, a->files[i]);
        const clt_rows_facts *facts = clt_rows_describe(rows);
        CLT_TRY(check_shape(p, a->files[i], facts));
        if (facts->bytes)
            CLT_TRY(clt_predictor_check_bytes(p, a->files[i]));
        CLT_TRY(clt_rows_file(rows, 0, &file));
        *files = *files || (file && strcmp(file, a->files[i]) != 0);
    }
    return CLT_OK;
}

/* Writes the predictions of samples first ... first + got - 1, each with its file or line. */
static clt_status write_out(predict_out *out, clt_rows *rows, const char *path, int64_t first, int64_t got,
                            const float *y)
{
    const char *file;
    CLT_TRY(clt_rows_file(rows, first, &file));
    if (!file && !out->lines)
        return predict_out_write(out, path, y, got);
    for (int64_t i = 0; i < got; i++) {
        CLT_TRY(clt_rows_file(rows, first + i, &file));
        if (out->lines)
            out->line = clt_rows_line(rows, first + i);
        CLT_TRY(
            clt_rows_left_out(rows, first + i)
                ? predict_out_leave_out(out, file)
                : predict_out_write(out, file ? file : path, y + i * out->of->rows * out->of->outputs, 1));
    }
    return CLT_OK;
}

/* Warns about floats that are all 0 or 1: they may be bytes that were scaled already. Other fractions are
 * refused. */
static void tell_zeros_and_ones(const clt_predictor *p, const char *path)
{
    char scale[CLT_NUMBER_TEXT];
    terminal_say_to(stderr,
                    "%s: its numbers are floats, all of them 0 or 1, and were multiplied by the run's "
                    "data.scale, %s, as its training data was; if they are scaled already, divide them by it "
                    "first\n",
                    path, clt_double_text(clt_predictor_scale(p), scale));
}

/* Without --out the predictions themselves are on the terminal, and show the progress. */
static void tell_progress(const predict_args *a, int64_t samples)
{
    char text[64];
    snprintf(text, sizeof text, "predicting: %lld sample%s", (long long)samples, CLT_PLURAL(samples));
    clt_progress(&a->observer, text, 0, 0);
}

static clt_status predict_file(const predict_args *a, clt_predictor *p, const char *path, predict_out *out,
                               double *x, float *y)
{
    CLT_SCOPED(clt_rows) *rows = NULL;
    int64_t got = 1, first = 0;
    bool told = false;
    CLT_TRY(open_rows(a, p, path, true, &rows));
    double scale = clt_predictor_scale(p);
    bool ask = clt_rows_describe(rows)->floats && (scale < 1 || scale > 1);
    /* an input that can be read only once may be a keyboard, so each sample is answered immediately */
    int64_t most = clt_rows_once(path) ? 1 : p->micro_batch;
    for (; got > 0; first += got) {
        clt_status status = clt_rows_next(rows, most, x, &got);
        if (!told && clt_rows_describe(rows)->header[0]) {
            console_make_way();
            terminal_say_to(stderr, "%s: the first line (%s) is not a sample and is skipped\n", path,
                            clt_rows_describe(rows)->header);
            told = true;
        }
        CLT_TRY(status);
        if (got > 0) {
            CLT_TRY(clt_predictor_run(p, x, got, first, y));
            CLT_TRY(write_out(out, rows, path, first, got, y));
        }
        for (int64_t i = 0; i < got * p->elements && ask; i++)
            ask = fabs(x[i]) <= 1;
        if (a->out)
            tell_progress(a, out->samples);
        if (most == 1 && fflush(out->file) != 0)
            CLT_FAIL(CLT_ESTORAGE, "writing predictions failed");
    }
    if (first > 0 && ask)
        tell_zeros_and_ones(p, path);
    return CLT_OK;
}

static clt_status predict_all(const predict_args *a, clt_predictor *p, predict_out *out)
{
    CLT_FREED double *x = NULL;
    CLT_FREED float *y = NULL;
    CLT_TRY(clt_alloc(&x, (size_t)(p->micro_batch * p->elements), sizeof *x, "samples"));
    CLT_TRY(clt_alloc(&y, (size_t)(p->micro_batch * p->rows * p->outputs), sizeof *y, "predictions"));
    CLT_TRY(predict_out_open(out));
    for (int i = 0; i < a->n_files; i++)
        CLT_TRY(p->texts ? predict_texts_write(out, p, a->files[i])
                         : predict_file(a, p, a->files[i], out, x, y));
    return CLT_OK;
}

static clt_status predict_files(predict_args *a, clt_predictor *p, predict_out *out)
{
    double start = clt_now();
    clt_error error;
    clt_error_take(predict_all(a, p, out), &error);
    console_close(&a->console);
    clt_status closed = predict_out_close(out, error.status != CLT_OK);
    if (error.status != CLT_OK)
        return clt_error_put(&error);
    CLT_TRY(closed);
    int64_t predicted = out->samples - out->left_out;
    if (out->samples == 0)
        CLT_FAIL(CLT_EDATA, "predicting: there was no sample in the input");
    if (predicted == 0)
        CLT_FAIL(CLT_EDATA, "predicting: none of the %lld image%s can be read; each was named above",
                 (long long)out->samples, CLT_PLURAL(out->samples));
    terminal_say_to(stderr, "%lld sample%s predicted in %.2f s%s%s\n", (long long)predicted,
                    CLT_PLURAL(predicted), clt_now() - start, out->path ? ", written to " : "",
                    out->path ? out->path : "");
    if (out->not_finite)
        CLT_FAIL(CLT_ENUMERIC,
                 "predicting: %lld predictions hold numbers that are not finite; the weights or "
                 "the inputs are too large",
                 (long long)out->not_finite);
    return CLT_OK;
}

/* --- masks of volumes --- */

static clt_status check_mask_args(const predict_args *a)
{
    if (a->format || a->top)
        CLT_FAIL(CLT_EUSAGE, "cltrain predict: --format and --top-k have no meaning for a mask; remove them");
    if (a->n_files != 1)
        CLT_FAIL(
            CLT_EUSAGE,
            "cltrain predict: one volume gives one mask, but %d volumes are named; call it once for each",
            a->n_files);
    if (!clt_file_exists(a->files[0]) || clt_is_directory(a->files[0]))
        CLT_FAIL(CLT_EUSAGE, "cltrain predict: '%s' is not a file; name a volume (.nii, .nii.gz or .npy)",
                 a->files[0]);
    return clt_file_can_write(a->out);
}

static clt_status write_mask(predict_args *a, clt_predictor *p)
{
    clt_volume_prediction result;
    double start = clt_now();
    clt_status status = clt_predictor_volume(p, a->files[0], a->out, &a->observer, &result);
    console_close(&a->console);
    CLT_TRY(status);
    terminal_say_to(stderr, "%lld x %lld x %lld voxels in %lld window%s predicted in %.2f s, written to %s\n",
                    (long long)result.size[0], (long long)result.size[1], (long long)result.size[2],
                    (long long)result.windows, CLT_PLURAL(result.windows), clt_now() - start, a->out);
    for (int64_t c = 0; c < 256; c++)
        if (result.voxels[c] > 0) {
            const char *name = clt_predictor_class(p, c);
            terminal_say_to(stderr, "class %lld%s%s: %lld voxels\n", (long long)c, name ? " " : "",
                            name ? name : "", (long long)result.voxels[c]);
        }
    return CLT_OK;
}

/* A bad image gets a row without a prediction, which only csv and jsonl can express. */
static clt_status check_skip(const clt_saved_run *saved, predict_format format)
{
    bool images = clt_source_type_of(saved->config)->left_out != NULL;
    if (!clt_rows_skip(saved->config) || (images && format != PREDICT_NPY))
        return CLT_OK;
    CLT_FAIL(CLT_EUSAGE,
             "cltrain predict does not take data.on_bad_sample=skip: %s; remove this key, and repair or "
             "remove the samples that cannot be read",
             images ? "an npy file has no place for an image without a prediction (csv and jsonl have)"
                    : "it can skip images, but no other samples");
}

/* Predicts the mask of one volume, because --out names a NIfTI file. */
static clt_status predict_mask(predict_args *a, const args_result *r, const clt_saved_run *saved)
{
    CLT_SCOPED(clt_predictor) *p = NULL;
    CLT_TRY(clt_predictor_open(saved, &p));
    CLT_TRY(clt_predictor_check_volumes(p));
    CLT_TRY(check_skip(saved, PREDICT_CSV));
    CLT_TRY(choose_files(a, r, saved));
    CLT_TRY(check_mask_args(a));
    CLT_TRY(clt_predictor_start(p, a->device, a->caps_mask, &a->observer));
    return write_mask(a, p);
}

static bool is_volume(const char *path)
{
    return clt_nifti_named(path) || clt_volume_is_pair(path);
}

/* Returns an error if the run predicts masks of volumes, which need --out MASK.nii.gz. */
static clt_status refuse_mask_run(const predict_args *a, const clt_predictor *p)
{
    bool folder = clt_is_directory(a->files[0]);
    if (!folder && !is_volume(a->files[0]))
        return CLT_OK;
    if (clt_predictor_check_volumes(p) != CLT_OK) {
        clt_error_clear();
        return CLT_OK;
    }
    CLT_FAIL(
        CLT_EUSAGE,
        "cltrain predict: this run predicts masks of volumes%s%s%s; name one volume and --out MASK.nii.gz",
        folder ? ", and '" : "", folder ? a->files[0] : "", folder ? "' is a folder" : "");
}

static clt_status predict(predict_args *a, const args_result *r, const clt_saved_run *saved)
{
    if (a->out && clt_nifti_named(a->out))
        return predict_mask(a, r, saved);
    CLT_SCOPED(clt_predictor) *p = NULL;
    predict_out out = {.top = a->top, .path = a->out};
    if (a->out && strcmp(a->out, "-") == 0) /* "-": to the standard output, as with --json */
        a->out = out.path = NULL;
    CLT_TRY(predict_format_choose(a->format, a->out, &out.format));
    CLT_TRY(clt_predictor_open(saved, &p));
    CLT_TRY(check_skip(saved, out.format));
    CLT_TRY(choose_files(a, r, saved));
    CLT_TRY(refuse_mask_run(a, p));
    out.of = p;
    out.files = a->n_files > 1;
    out.lines = a->held_out;
    if (a->top && p->kind != CLT_PREDICT_CLASSES)
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain predict: --top-k is for classifiers with several classes; this run has none");
    if (a->top && out.format == PREDICT_NPY)
        CLT_FAIL(CLT_EUSAGE, "cltrain predict: --top-k writes csv or jsonl; an npy file has the "
                             "probabilities of all classes");
    if (out.format == PREDICT_JSON && !p->texts)
        CLT_FAIL(CLT_EUSAGE, PREDICT_JSON_SPANS);
    if (out.format == PREDICT_NPY && !a->out)
        CLT_FAIL(CLT_EUSAGE, "cltrain predict: npy needs a file: --out FILE.npy");
    if (out.top > p->outputs)
        out.top = p->outputs;
    CLT_TRY(p->texts ? predict_texts_format(p, a->format, &out) : check_files(a, p, &out.files));
    if (a->out)
        CLT_TRY(clt_file_can_write(a->out));
    CLT_TRY(clt_predictor_start(p, a->device, a->caps_mask, &a->observer));
    if (!a->out)
        console_close(&a->console);
    return predict_files(a, p, &out);
}

clt_status cmd_predict(cmd_context *context, int argc, char **argv)
{
    predict_args a = {0};
    char types[128] = "auto|", words[128], best_path[1024];
    bool best = false;
    clt_rows_types("|", "|", types + strlen(types), sizeof types - strlen(types));
    const args_option options[] = {
        ARGS_TEXT(
            "--input", "FILE", a.input,
            "samples: idx (plain or .gz), npy, csv, raw f32, an image, a volume, or a folder of images or "
            "volumes; - for lines of numbers on the standard input (the run's evaluation data)"),
        ARGS_TEXT("--input-type", types, a.type, "what the input is (by content and name)"),
        ARGS_TEXT(
            "--out", "FILE", a.out,
            "write .csv, .jsonl, .npy or .json (the standard output, as csv); .nii or .nii.gz: the mask of a "
            "volume, by a run that was trained on masks"),
        ARGS_TEXT("--format", "csv|jsonl|npy|json", a.format,
                  "the format of the output, whatever the file's name ends with"),
        ARGS_BEST(best),
        ARGS_INT("--top-k", "K", a.top, 1, 1e6, "classifiers: only the K most likely classes, in that order"),
        ARGS_DEVICE(a.device),
        ARGS_CAPS(a.caps),
        ARGS_END};
    const args_usage usage = ARGS_USAGE(
        "predict", "RUN [FILE ...] [section.key=value ...]", 1, ARGS_MAX, options,
        "Predicts with a trained classifier or regression: RUN is a run folder, its checkpoints "
        "folder or one step_N of it. Classifiers give probabilities, regressions values in the unit "
        "of their targets. docs/predict.md says more.");
    args_result r;
    CLT_SCOPED(clt_saved_run) *saved = NULL;
    ARGS_PARSE(&usage, argc, argv, &r);
    CLT_TRY(cmd_caps(a.caps, &a.caps_mask));
    a.rows_type = a.type ? clt_rows_type(a.type) : NULL;
    if (a.type && !a.rows_type && strcmp(a.type, "auto") != 0)
        CLT_FAIL(CLT_EUSAGE, "cltrain predict: --input-type '%s'; there are auto, %s", a.type,
                 clt_rows_types(", ", " and ", words, sizeof words));
    const clt_saved_run_options open = {
        .overrides = r.overrides, .n_overrides = r.n_overrides, .tensors = true};
    const char *run = r.operands[0];
    CLT_TRY(cmd_best_of(best, &run, best_path));
    CLT_TRY(clt_saved_run_open(run, &open, &saved));
    cmd_use_log_level(saved->config);
    a.observer = console_begin_result(&a.console, context);
    clt_status status = predict(&a, &r, saved);
    console_close(&a.console);
    return status;
}
