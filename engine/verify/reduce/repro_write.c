/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the program that repeats captured commands. It only prints data and calls; the functions called are
 * in repro_text.c. */
#include "engine/verify/reduce/repro.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "engine/files/fileio.h"

/* Most words of buffers, and most expected values, that repro.c contains; more are in a file. */
#define EMBEDDED_WORDS 16384
#define EMBEDDED_VALUES 4096
#define SEGMENT_GAP 4 /* a segment of words may contain this many consecutive filling words */

/* A program of the commands. */
typedef struct repro_program {
    const char *family, *options;
    char *source;
    clt_str full_options;
    int file; /* number of its source file, from 1 */
} repro_program;

typedef struct repro {
    const clt_capture *capture;
    const clt_repro_about *about;
    const char *folder;
    repro_program *programs;
    int n_programs;
    bool in_file; /* buffers and expected values are in inputs.bin */
    clt_str text, data, listing;
} repro;

static void repro_end_scope(repro *r)
{
    for (int i = 0; i < r->n_programs; i++) {
        free(r->programs[i].source);
        clt_str_free(&r->programs[i].full_options);
    }
    free(r->programs);
    clt_str_free(&r->text);
    clt_str_free(&r->data);
    clt_str_free(&r->listing);
}

static clt_status write_file(const repro *r, const char *name, const char *bytes, size_t n)
{
    CLT_FREED char *path = NULL;
    CLT_TRY(clt_path_join(r->folder, name, &path));
    return clt_file_write(path, bytes, n);
}

/* Prints a text as a C string literal. */
static void quote(clt_str *out, const char *text)
{
    clt_str_append(out, "\"");
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            clt_str_append(out, "\\");
        if ((unsigned char)*text >= ' ')
            clt_str_append_n(out, text, 1);
    }
    clt_str_append(out, "\"");
}

/* --- programs --- */

static int program_of(const repro *r, const ocl_command *c)
{
    for (int i = 0; i < r->n_programs; i++)
        if (strcmp(r->programs[i].family, c->family) == 0 && strcmp(r->programs[i].options, c->options) == 0)
            return i;
    return -1;
}

static void file_name(int number, char *out, size_t size)
{
    if (number == 1)
        snprintf(out, size, "kernel.cl");
    else
        snprintf(out, size, "kernel%d.cl", number);
}

static clt_status add_program(repro *r, const ocl_command *c)
{
    repro_program *p = &r->programs[r->n_programs];
    char name[32];
    int files = 0;
    *p = (repro_program){.family = c->family, .options = c->options};
    r->n_programs++;
    CLT_TRY(ocl_program_text(c->family, c->options, &p->source, &p->full_options));
    for (int i = 0; i < r->n_programs - 1; i++) {
        files = r->programs[i].file > files ? r->programs[i].file : files;
        if (strcmp(r->programs[i].source, p->source) == 0)
            p->file = r->programs[i].file;
    }
    if (p->file == 0) {
        p->file = files + 1;
        file_name(p->file, name, sizeof name);
        CLT_TRY(write_file(r, name, p->source, strlen(p->source)));
    }
    file_name(p->file, name, sizeof name);
    clt_str_printf(&r->listing, "%s: %s\n", name, p->full_options.text);
    return CLT_OK;
}

static clt_status write_programs(repro *r)
{
    CLT_TRY(clt_alloc(&r->programs, r->capture->n_commands, sizeof *r->programs, "programs"));
    for (size_t i = 0; i < r->capture->n_commands; i++) {
        const clt_captured_command *c = &r->capture->commands[i];
        if (c->kept && c->command.kind == OCL_CMD_KERNEL && program_of(r, &c->command) < 0)
            CLT_TRY(add_program(r, &c->command));
    }
    for (int i = 0; i < r->n_programs; i++) {
        char name[32];
        file_name(r->programs[i].file, name, sizeof name);
        clt_str_printf(&r->text, "    cl_program program%d = build(\"%s\",\n                                ",
                       i, name);
        quote(&r->text, r->programs[i].full_options.text);
        clt_str_append(&r->text, ");\n");
    }
    CLT_TRY(clt_str_check(&r->listing));
    return write_file(r, "options.txt", r->listing.text ? r->listing.text : "", r->listing.length);
}

/* --- buffers --- */

static bool is_used(const clt_capture *capture, int buffer)
{
    bool used = capture->wrong.buffer == buffer;
    for (size_t i = 0; i < capture->n_commands; i++)
        for (int a = 0; a < capture->commands[i].command.n_args; a++)
            used |= capture->commands[i].kept &&
                    capture->commands[i].command.args[a].kind == OCL_ARG_TENSOR &&
                    capture->commands[i].buffer[a] == buffer;
    return used;
}

static uint32_t word(const clt_captured_buffer *b, uint64_t i)
{
    uint32_t value = 0;
    if (b->before)
        memcpy(&value, b->before + 4 * i, sizeof value);
    return value;
}

/* The word, out of a few candidates, that is most frequent in the buffer. The program first fills the buffer
 * with it. */
static uint32_t filling(const clt_captured_buffer *b)
{
    const uint32_t candidates[] = {CLT_VERIFY_NAN_PATTERN, 0, CLT_VERIFY_FINITE_PATTERN, word(b, 0)};
    uint64_t best = 0;
    uint32_t found = 0;
    for (size_t c = 0; c < sizeof candidates / sizeof candidates[0]; c++) {
        uint64_t n = 0;
        for (uint64_t i = 0; i < clt_div_up(b->bytes, 4); i++)
            n += word(b, i) == candidates[c];
        if (n > best) {
            best = n;
            found = candidates[c];
        }
    }
    return found;
}

/* The end of the segment of words that begins at `first`: more than SEGMENT_GAP filling words follow it. */
static uint64_t segment_end(const clt_captured_buffer *b, uint64_t first, uint32_t fill)
{
    uint64_t end = first, count = clt_div_up(b->bytes, 4);
    for (uint64_t i = first; i < count && i <= end + SEGMENT_GAP; i++)
        if (word(b, i) != fill)
            end = i + 1;
    return end;
}

static uint64_t words_to_embed(const clt_captured_buffer *b)
{
    uint64_t all = 0, count = clt_div_up(b->bytes, 4);
    uint32_t fill = filling(b);
    for (uint64_t i = 0; i < count; i++)
        all += word(b, i) != fill;
    return all;
}

static void embed_buffer(repro *r, int number)
{
    const clt_captured_buffer *b = &r->capture->buffers[number];
    uint64_t count = clt_div_up(b->bytes, 4);
    uint32_t fill = filling(b);
    clt_str_printf(&r->text, "    cl_uint *content%d = words(%" PRIu64 ", 0x%08" PRIx32 "u);\n", number,
                   count, fill);
    for (uint64_t i = 0; i < count; i++) {
        if (word(b, i) == fill)
            continue;
        uint64_t end = segment_end(b, i, fill);
        clt_str_printf(&r->data, "static const cl_uint data%d_%" PRIu64 "[] = {", number, i);
        for (uint64_t k = i; k < end; k++)
            clt_str_printf(&r->data, "%s0x%08" PRIx32 "u,", (k - i) % 8 == 0 ? "\n    " : " ", word(b, k));
        clt_str_append(&r->data, "\n};\n");
        clt_str_printf(
            &r->text, "    memcpy(content%d + %" PRIu64 ", data%d_%" PRIu64 ", sizeof data%d_%" PRIu64 ");\n",
            number, i, number, i, number, i);
        i = end;
    }
    clt_str_printf(&r->text, "    cl_mem buffer%d = make_buffer(content%d, %" PRIu64 ");\n", number, number,
                   b->bytes);
}

static void put_buffers(repro *r)
{
    for (int i = 0; i < r->capture->n_buffers; i++) {
        if (!is_used(r->capture, i))
            continue;
        if (r->in_file)
            clt_str_printf(&r->text, "    cl_mem buffer%d = load_buffer(%" PRIu64 ");\n", i,
                           r->capture->buffers[i].bytes);
        else
            embed_buffer(r, i);
    }
}

/* --- commands --- */

static void put_value(clt_str *text, const ocl_arg *arg)
{
    float f32 = arg->value.f32;
    uint32_t bits;
    switch (arg->kind) {
    case OCL_ARG_I32:
        clt_str_printf(text, "sizeof(cl_int), &(cl_int){%" PRId32 "});\n", arg->value.i32);
        break;
    case OCL_ARG_U32:
        clt_str_printf(text, "sizeof(cl_uint), &(cl_uint){%" PRIu32 "u});\n", arg->value.u32);
        break;
    case OCL_ARG_U64:
        clt_str_printf(text, "sizeof(cl_ulong), &(cl_ulong){%" PRIu64 "u});\n", arg->value.u64);
        break;
    case OCL_ARG_F32:
        memcpy(&bits, &f32, sizeof bits);
        clt_str_printf(text, "sizeof(cl_uint), &(cl_uint){0x%08" PRIx32 "u}); /* %.9g */\n", bits,
                       (double)f32);
        break;
    default: /* OCL_ARG_LOCAL */
        clt_str_printf(text, "%" PRIu64 ", NULL);\n", arg->value.u64);
    }
}

static void put_kernel(repro *r, const clt_captured_command *c, size_t number)
{
    clt_str *text = &r->text;
    int next = 0;
    clt_str_printf(text, "    cl_kernel kernel%zu = clCreateKernel(program%d, \"%s\", &code);\n", number,
                   program_of(r, &c->command), c->command.kernel);
    clt_str_append(text, "    check(code, \"clCreateKernel\");\n");
    for (int a = 0; a < c->command.n_args; a++) {
        const ocl_arg *arg = &c->command.args[a];
        clt_str_printf(text, "    arg(kernel%zu, %d, ", number, next++);
        if (arg->kind == OCL_ARG_TILE_COUNTER) {
            clt_str_append(text, "sizeof counters, &counters);\n");
        } else if (arg->kind == OCL_ARG_TENSOR) {
            uint64_t offset = c->buffer[a] >= 0 ? c->at[a] / arg->element_bytes : 0;
            if (c->buffer[a] >= 0)
                clt_str_printf(text, "sizeof(cl_mem), &buffer%d);\n", c->buffer[a]);
            else
                clt_str_append(text, "sizeof(cl_mem), &(cl_mem){NULL});\n");
            clt_str_printf(text, "    arg(kernel%zu, %d, sizeof(cl_ulong), &(cl_ulong){%" PRIu64 "u});\n",
                           number, next++, offset);
        } else {
            put_value(text, arg);
        }
    }
    clt_str_printf(text, "    launch(kernel%zu, %u, (size_t[3]){%zu, %zu, %zu}, (size_t[3]){%zu, %zu, %zu}, ",
                   number, c->command.work_dim, c->command.global[0], c->command.global[1],
                   c->command.global[2], c->local[0], c->local[1], c->local[2]);
    quote(text, c->command.label);
    clt_str_append(text, ");\n");
}

static void put_commands(repro *r)
{
    clt_str *text = &r->text;
    for (size_t i = 0; i < r->capture->n_commands; i++) {
        const clt_captured_command *c = &r->capture->commands[i];
        const ocl_arg *to = &c->command.args[0];
        if (!c->kept)
            continue;
        clt_str_printf(text, "\n    /* %s */\n", c->command.label);
        if (c->command.kind == OCL_CMD_KERNEL) {
            put_kernel(r, c, i);
        } else if (c->command.kind == OCL_CMD_FILL) {
            bool whole = to->bytes % 4 == 0 && c->at[0] % 4 == 0;
            clt_str_printf(text,
                           "    check(clEnqueueFillBuffer(queue, buffer%d, &(cl_uint){0x%08" PRIx32
                           "u}, %d, %" PRIu64 ", %" PRIu64 ", 0, NULL, NULL),\n"
                           "          \"clEnqueueFillBuffer\");\n",
                           c->buffer[0], to->value.u32, whole ? 4 : 1, c->at[0], to->bytes);
        } else if (c->command.kind == OCL_CMD_COPY) {
            clt_str_printf(text,
                           "    check(clEnqueueCopyBuffer(queue, buffer%d, buffer%d, %" PRIu64 ", %" PRIu64
                           ", %" PRIu64 ", 0, NULL, NULL),\n          \"clEnqueueCopyBuffer\");\n",
                           c->buffer[1], c->buffer[0], c->at[1], c->at[0], to->bytes);
        }
    }
}

/* Functions and variables that only some programs need. */
static bool has_kernel(const repro *r, bool counters)
{
    for (size_t i = 0; i < r->capture->n_commands; i++) {
        const clt_captured_command *c = &r->capture->commands[i];
        if (!c->kept || c->command.kind != OCL_CMD_KERNEL)
            continue;
        if (!counters)
            return true;
        for (int a = 0; a < c->command.n_args; a++)
            if (c->command.args[a].kind == OCL_ARG_TILE_COUNTER)
                return true;
    }
    return false;
}

/* --- expected values --- */

static void put_double(clt_str *out, double v)
{
    if (isnan(v))
        clt_str_append(out, "NAN");
    else if (isinf(v))
        clt_str_append(out, v < 0 ? "-INFINITY" : "INFINITY");
    else
        clt_str_printf(out, "%.17g", v);
}

static bool all_same(const double *values, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (memcmp(&values[i], &values[0], sizeof *values) != 0)
            return false;
    return true;
}

/* Prints a macro NAME(i) for the values: one number if all are equal, else an array, which may be in
 * inputs.bin. */
static void put_series(repro *r, const char *name, const char *macro, const double *values)
{
    size_t n = r->capture->wrong.n;
    clt_str *out = &r->data;
    if (all_same(values, n)) {
        clt_str_printf(out, "#define %s(i) ((void)(i), (double)", macro);
        put_double(out, values[0]);
        clt_str_append(out, ")\n");
        return;
    }
    clt_str_printf(out, "#define %s(i) %s[i]\n", macro, name);
    if (r->in_file) {
        clt_str_printf(out, "static double %s[%zu];\n", name, n);
        clt_str_printf(&r->text, "    load(%s, sizeof %s);\n", name, name);
        return;
    }
    clt_str_printf(out, "static const double %s[] = {", name);
    for (size_t i = 0; i < n; i++) {
        clt_str_append(out, i % 4 == 0 ? "\n    " : " ");
        put_double(out, values[i]);
        clt_str_append(out, ",");
    }
    clt_str_append(out, "\n};\n");
}

static bool is_row(const clt_captured_values *v)
{
    for (size_t i = 1; i < v->n; i++)
        if (v->element[i] != v->element[0] + i)
            return false;
    return true;
}

static void put_elements(repro *r)
{
    const clt_captured_values *v = &r->capture->wrong;
    if (is_row(v)) {
        clt_str_printf(&r->data, "#define ELEMENT(i) (%" PRIu64 "u + (i))\n", v->element[0]);
        return;
    }
    clt_str_append(&r->data, "#define ELEMENT(i) element[i]\n");
    if (r->in_file) {
        clt_str_printf(&r->data, "static cl_ulong element[%zu];\n", v->n);
        clt_str_append(&r->text, "    load(element, sizeof element);\n");
        return;
    }
    clt_str_append(&r->data, "static const cl_ulong element[] = {");
    for (size_t i = 0; i < v->n; i++)
        clt_str_printf(&r->data, "%s%" PRIu64 ",", i % 12 == 0 ? "\n    " : " ", v->element[i]);
    clt_str_append(&r->data, "\n};\n");
}

static void put_expected(repro *r)
{
    const clt_captured_values *v = &r->capture->wrong;
    clt_str *out = &r->data;
    clt_str_printf(out, "/* The expected values of %s, and how far a right result may be from them. */\n",
                   v->what);
    clt_str_printf(out, "#define COUNT %zuu\n#define RESULT \"buffer%d\"\n#define TOGETHER %d\n", v->n,
                   v->buffer, v->together);
    clt_str_append(out, "#define MEAN_LIMIT ");
    put_double(out, v->mean_limit);
    clt_str_append(out, "\n#define LEFT ");
    put_double(out, v->left);
    clt_str_append(out, "\n");
    put_elements(r);
    put_series(r, "expected", "WANT", v->want);
    put_series(r, "allowed", "BOUND", v->bound);
    put_series(r, "rounding", "STORAGE", v->storage);
}

static const char *value_function(clt_dtype dtype)
{
    return dtype == CLT_F16 ? clt_repro_half : dtype == CLT_BF16 ? clt_repro_bfloat : NULL;
}

static const char *c_type(clt_dtype dtype)
{
    switch (dtype) {
    case CLT_I32:
        return "cl_int";
    case CLT_U32:
        return "cl_uint";
    case CLT_U16:
        return "cl_ushort";
    case CLT_U8:
        return "cl_uchar";
    case CLT_I64:
        return "cl_long";
    case CLT_F64:
        return "cl_double";
    default:
        return "cl_float";
    }
}

static void put_comparison(const repro *r, clt_str *out)
{
    const clt_captured_values *v = &r->capture->wrong;
    if (value_function(v->dtype))
        clt_str_append(out, value_function(v->dtype));
    else
        clt_str_printf(
            out,
            "\nstatic double value(const void *buffer, size_t i)\n{\n    return (double)((const %s "
            "*)buffer)[i];\n}\n",
            c_type(v->dtype));
    clt_str_append(out, clt_repro_compare);
}

static void put_end(repro *r)
{
    const clt_captured_values *v = &r->capture->wrong;
    clt_str_append(&r->text, "\n    check(clFinish(queue), \"clFinish\");\n");
    if (v->buffer < 0) {
        clt_str_append(&r->text, "    puts(\"right: every command has ended\");\n    return 0;\n}\n");
        return;
    }
    uint64_t bytes = r->capture->buffers[v->buffer].bytes;
    clt_str_printf(&r->text, "    void *result = memory(%" PRIu64 ");\n", bytes);
    clt_str_printf(
        &r->text,
        "    check(clEnqueueReadBuffer(queue, buffer%d, CL_TRUE, 0, %" PRIu64
        ", result, 0, NULL, NULL),\n          \"clEnqueueReadBuffer\");\n    return compare(result);\n}\n",
        v->buffer, bytes);
}

/* --- the whole --- */

static clt_status write_inputs(repro *r)
{
    const clt_captured_values *v = &r->capture->wrong;
    CLT_SCOPED(clt_str) bytes = {0};
    static const char zeros[4096];
    for (int i = 0; i < r->capture->n_buffers; i++) {
        const clt_captured_buffer *b = &r->capture->buffers[i];
        if (!is_used(r->capture, i))
            continue;
        for (uint64_t at = 0; at < b->bytes; at += sizeof zeros) {
            size_t n = b->bytes - at < sizeof zeros ? (size_t)(b->bytes - at) : sizeof zeros;
            clt_str_append_n(&bytes, b->before ? (const char *)b->before + at : zeros, n);
        }
    }
    if (v->buffer >= 0) {
        const double *series[] = {v->want, v->bound, v->storage};
        if (!is_row(v))
            clt_str_append_n(&bytes, (const char *)v->element, v->n * sizeof *v->element);
        for (int s = 0; s < 3; s++)
            if (!all_same(series[s], v->n))
                clt_str_append_n(&bytes, (const char *)series[s], v->n * sizeof *series[s]);
    }
    CLT_TRY(clt_str_check(&bytes));
    return write_file(r, "inputs.bin", bytes.text, bytes.length);
}

static void put_head(const repro *r, clt_str *out)
{
    clt_str_printf(
        out,
        "/* Shows a fault of an OpenCL driver, found by the check %s of cltrain.\n"
        " * Build and run it in its folder:\n"
        " *     cc repro.c -lOpenCL -o repro && ./repro\n"
        " * An argument chooses another device: a part of its name, or of its platform's. Exit code 0: the "
        "result\n"
        " * is right, 1: it is wrong, 2: the program could not run. cltrain verify --reduce wrote this file. "
        "*/\n"
        "#define CL_TARGET_OPENCL_VERSION 120\n"
        "#include <CL/cl.h>\n#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include "
        "<string.h>\n\n",
        r->about->check);
    clt_str_append(out, "#define PLATFORM ");
    quote(out, r->about->platform);
    clt_str_append(out, "\n#define DEVICE ");
    quote(out, r->about->device);
    clt_str_printf(out, "\n#define REFUSED %d /* exit code when a call fails */\n\n",
                   r->about->refused ? 1 : 2);
}

static void put_helpers(const repro *r, clt_str *out)
{
    clt_str_append(out, clt_repro_begin);
    clt_str_append(out, r->in_file ? clt_repro_loaded : clt_repro_embedded);
    if (has_kernel(r, false))
        clt_str_append(
            out,
            "\nstatic void arg(cl_kernel kernel, cl_uint index, size_t bytes, const void *value)\n{\n"
            "    check(clSetKernelArg(kernel, index, bytes, value), \"clSetKernelArg\");\n}\n"
            "\nstatic void launch(cl_kernel kernel, cl_uint dimensions, const size_t *global, const size_t "
            "*local, const char *what)\n{\n"
            "    check(clEnqueueNDRangeKernel(queue, kernel, dimensions, NULL, global, local, 0, NULL, "
            "NULL), "
            "what);\n}\n");
    if (r->capture->wrong.buffer >= 0)
        put_comparison(r, out);
}

clt_status clt_repro_write(const clt_capture *capture, const clt_repro_about *about, const char *folder)
{
    CLT_SCOPED(repro) r = {.capture = capture, .about = about, .folder = folder};
    CLT_SCOPED(clt_str) all = {0};
    uint64_t embedded = 0;
    for (int i = 0; i < capture->n_buffers; i++)
        embedded += is_used(capture, i) ? words_to_embed(&capture->buffers[i]) : 0;
    r.in_file =
        embedded > EMBEDDED_WORDS || (capture->wrong.buffer >= 0 && capture->wrong.n > EMBEDDED_VALUES);
    clt_str_append(&r.text, "\nint main(int argc, char **argv)\n{\n    cl_int code = CL_SUCCESS;\n"
                            "    open_device(argc > 1 ? argv[1] : NULL);\n    check(code, \"open\");\n");
    CLT_TRY(write_programs(&r));
    put_buffers(&r);
    if (has_kernel(&r, true))
        clt_str_append(&r.text,
                       "    cl_mem counters = make_buffer(memory(64), 64); /* zero before each launch */\n");
    if (capture->wrong.buffer >= 0)
        put_expected(&r);
    put_commands(&r);
    put_end(&r);
    put_head(&r, &all);
    clt_str_append(&all, r.data.text ? r.data.text : "");
    clt_str_append(&all, r.data.text ? "\n" : "");
    put_helpers(&r, &all);
    clt_str_append(&all, r.text.text);
    CLT_TRY(clt_str_check(&r.text));
    CLT_TRY(clt_str_check(&r.data));
    CLT_TRY(clt_str_check(&all));
    if (r.in_file)
        CLT_TRY(write_inputs(&r));
    return write_file(&r, "repro.c", all.text, all.length);
}
