/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs and kernels: clang compiles the source to PTX, and the parser converts it to instructions. This
 * file does not know what a kernel computes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/ptx/driver.h"

/* --- compiler --- */

static char *read_all(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    long size = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (size >= 0 && (text = malloc((size_t)size + 1))) {
        rewind(file);
        *bytes = fread(text, 1, (size_t)size, file);
        text[*bytes] = '\0';
    }
    if (file)
        fclose(file);
    return text;
}

static bool write_all(const char *path, const char *before, const char *text)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        return false;
    bool ok = fputs(before, file) >= 0 && fputs(text, file) >= 0;
    return fclose(file) == 0 && ok;
}

/* Functions that clang 14 does not declare. */
static const char declarations[] =
    "#if __clang_major__ < 15\n"
    "#define PTX_STORE(n, space) \\\n"
    "    float##n __attribute__((overloadable, pure)) vload_half##n(size_t, const space half *); \\\n"
    "    void __attribute__((overloadable)) vstore_half##n(float##n, size_t, space half *); \\\n"
    "    void __attribute__((overloadable)) vstore_half##n##_rte(float##n, size_t, space half *);\n"
    "#define PTX_STORES(space) PTX_STORE(, space) PTX_STORE(2, space) PTX_STORE(4, space) PTX_STORE(8, "
    "space) \\\n"
    "    PTX_STORE(16, space)\n"
    "PTX_STORES(__global) PTX_STORES(__local) PTX_STORES(__private)\n"
    "#endif\n";

#define MOST_WORDS 300
#define NEWEST_CPU 86 /* newest target of old versions of clang; PTX for newer devices is renamed */

typedef struct words {
    char *word[MOST_WORDS];
    size_t n;
} words;

static void add(words *w, const char *text)
{
    if (w->n + 1 < MOST_WORDS)
        w->word[w->n++] = strdup(text);
}

static void add_split(words *w, const char *text, const char *separators)
{
    char *copy = strdup(text), *save = NULL;
    for (char *item = strtok_r(copy, separators, &save); item; item = strtok_r(NULL, separators, &save))
        add(w, item);
    free(copy);
}

static void command_line(words *w, const char *options, const char *source, const char *ptx)
{
    static const char *const before[] = {
        "-x",      "cl",
        "-target", "nvptx64-nvidia-nvcl",
        "-Xclang", "-finclude-default-header",
        "-Xclang", "-target-feature",
        "-Xclang", "+ptx75",
        "-O3",     "-D__NV_CL_C_VERSION=1",
        "-w",      "-S",
        "-mllvm",  "-disable-vector-combine",    /* a vector of halves stays one load */
        "-mllvm",  "-inline-threshold=1000000"}; /* inlines everything, because the executor has no calls */
    char cpu[16];
    add(w, ptx_setting("CLTRAIN_PTX_CLANG", "clang"));
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++)
        add(w, before[i]);
    snprintf(cpu, sizeof cpu, "sm_%u", ptx_generation() < NEWEST_CPU ? ptx_generation() : NEWEST_CPU);
    add(w, "-Xclang");
    add(w, "-target-cpu");
    add(w, "-Xclang");
    add(w, cpu);
    add(w, "-Xclang");
    add(w, "-mlink-builtin-bitcode");
    add(w, "-Xclang");
    add(w, ptx_setting("CLTRAIN_PTX_BUILTINS", "builtins.bc"));
    add_split(w, options, " ");
    add(w, source);
    add(w, "-o");
    add(w, ptx);
}

/* Runs the command with its standard output and error in a file; true if its exit code is 0. */
static bool run(words *w, const char *log)
{
    w->word[w->n] = NULL;
    pid_t child = fork();
    if (child == 0) {
        if (!freopen(log, "wb", stdout) || dup2(STDOUT_FILENO, STDERR_FILENO) < 0)
            _exit(126);
        execvp(w->word[0], w->word);
        fprintf(stderr, "%s: %s\n", w->word[0], strerror(errno));
        _exit(127);
    }
    int status = -1;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* A program's name in the cache is a hash of all inputs of its compilation, including the library of
 * built-in functions. */
static uint64_t hash(uint64_t h, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
    return h * 31 + 7;
}

static bool cache_path(char *path, size_t size, const char *source, const char *options)
{
    const char *folder = getenv("CLTRAIN_PTX_CACHE"),
               *clang = ptx_setting(ptx_nvidia() ? "CLTRAIN_PTX_NVIDIA" : "CLTRAIN_PTX_CLANG", "clang");
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ ptx_generation();
    size_t bytes;
    if (!folder || !folder[0])
        return false;
    char *library = read_all(ptx_setting("CLTRAIN_PTX_BUILTINS", "builtins.bc"), &bytes);
    h = hash(h, library, library ? bytes : 0);
    free(library);
    h = hash(hash(hash(h, clang, strlen(clang)), options, strlen(options)), source, strlen(source));
    snprintf(path, size, "%s/%016llx.ptx", folder, (unsigned long long)h);
    return true;
}

/* ".target sm_86" is replaced by the device's target. */
static void name_target(char *ptx)
{
    char *at = ptx ? strstr(ptx, ".target sm_") : NULL, number[16];
    snprintf(number, sizeof number, "%u", ptx_generation());
    if (at && strlen(number) == 2)
        memcpy(at + strlen(".target sm_"), number, 2);
}

bool ptx_compile(const char *source, const char *options, char **ptx, char **log)
{
    char folder[] = "/tmp/cltrain_ptx_XXXXXX", path[3][64], cached[600];
    words line = {.n = 0};
    size_t bytes;
    bool keep = cache_path(cached, sizeof cached, source, options);
    *log = NULL;
    if (keep && (*ptx = read_all(cached, &bytes)))
        return true;
    *ptx = NULL;
    if (!mkdtemp(folder))
        return false;
    static const char *const ends[3] = {"cl", "ptx", "log"};
    for (int i = 0; i < 3; i++)
        snprintf(path[i], sizeof path[i], "%s/k.%s", folder, ends[i]);
    command_line(&line, options, path[0], path[1]);
    if (ptx_nvidia()) {
        ptx_nvidia_compile(source, options, ptx, log);
    } else {
        bool ok = write_all(path[0], declarations, source) && run(&line, path[2]);
        *log = read_all(path[2], &bytes);
        *ptx = ok ? read_all(path[1], &bytes) : NULL;
        name_target(*ptx);
    }
    if (keep && *ptx) { /* another process may write the same file, so the complete file is renamed */
        char fresh[700];
        snprintf(fresh, sizeof fresh, "%s.%ld", cached, (long)getpid());
        if (write_all(fresh, "", *ptx))
            rename(fresh, cached);
    }
    for (size_t i = 0; i < line.n; i++)
        free(line.word[i]);
    for (int i = 0; i < 3; i++)
        unlink(path[i]);
    rmdir(folder);
    return *ptx != NULL;
}

/* --- programs --- */

static cl_program CL_API_CALL create_program(cl_context context, cl_uint n, const char **texts,
                                             const size_t *lengths, cl_int *code)
{
    cl_program program = calloc(1, sizeof *program);
    size_t total = 0;
    (void)context;
    for (cl_uint i = 0; i < n; i++)
        total += lengths && lengths[i] ? lengths[i] : strlen(texts[i]);
    char *source = malloc(total + 1);
    if (!program || !source) {
        free(program);
        free(source);
        *code = CL_OUT_OF_HOST_MEMORY;
        return NULL;
    }
    *program = (struct _cl_program){
        .dispatch = &ptx_dispatch, .references = 1, .source = source, .status = CL_BUILD_NONE};
    for (cl_uint i = 0; i < n; i++) { /* program->source keeps the start of the buffer */
        size_t length = lengths && lengths[i] ? lengths[i] : strlen(texts[i]);
        memcpy(source, texts[i], length);
        source += length;
    }
    *source = '\0';
    *code = CL_SUCCESS;
    return program;
}

static bool wants_end(const char *what)
{
    return strcmp(ptx_setting("CLTRAIN_PTX_NUL", "any"), what) == 0;
}

static bool ends_as_wanted(const unsigned char *binary, size_t bytes)
{
    bool inside = memchr(binary, '\0', bytes) != NULL, end = binary[bytes - 1] == '\0';
    return wants_end("required") ? end : !wants_end("refused") || !inside;
}

/* The code with which creating a program for sm_90a is refused, or CL_SUCCESS. */
static cl_int refused_creation(const char *ptx)
{
    if (strstr(ptx, ".target sm_90a") == NULL)
        return CL_SUCCESS;
    return ptx_refuses("create")      ? CL_INVALID_BINARY
           : ptx_refuses("memory")    ? CL_OUT_OF_HOST_MEMORY
           : ptx_refuses("resources") ? CL_OUT_OF_RESOURCES
                                      : CL_SUCCESS;
}

static cl_program CL_API_CALL create_from_binary(cl_context context, cl_uint n, const cl_device_id *ids,
                                                 const size_t *lengths, const unsigned char **binaries,
                                                 cl_int *status, cl_int *code)
{
    cl_program program = calloc(1, sizeof *program);
    (void)context, (void)ids;
    bool ok = program && n == 1 && lengths[0] > 0 && binaries[0];
    cl_int why = CL_INVALID_BINARY;
    if (ok) {
        *program = (struct _cl_program){.dispatch = &ptx_dispatch, .references = 1, .status = CL_BUILD_NONE};
        program->binary = strndup((const char *)binaries[0], lengths[0]);
        ok = ends_as_wanted(binaries[0], lengths[0]) && strstr(program->binary, ".version") != NULL;
        if (ok && (why = refused_creation(program->binary)) != CL_SUCCESS)
            ok = false;
    }
    if (status)
        *status = ok || why != CL_INVALID_BINARY ? CL_SUCCESS : CL_INVALID_BINARY;
    *code = ok ? CL_SUCCESS : why;
    if (ok)
        return program;
    if (program)
        free(program->binary);
    free(program);
    return NULL;
}

static cl_int CL_API_CALL program_info(cl_program program, cl_program_info what, size_t size, void *out,
                                       size_t *needed)
{
    size_t bytes = program->ptx ? strlen(program->ptx) + !wants_end("refused") : 0;
    cl_uint one = 1;
    switch (what) {
    case CL_PROGRAM_NUM_DEVICES:
        return ptx_answer(&one, sizeof one, size, out, needed);
    case CL_PROGRAM_BINARY_SIZES:
        return ptx_answer(&bytes, sizeof bytes, size, out, needed);
    case CL_PROGRAM_BINARIES:
        if (out && size >= sizeof(char *) && *(char **)out)
            memcpy(*(char **)out, program->ptx, bytes);
        if (needed)
            *needed = sizeof(char *);
        return CL_SUCCESS;
    case CL_PROGRAM_NUM_KERNELS:
        return ptx_answer(&program->module.n_kernels, sizeof program->module.n_kernels, size, out, needed);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL retain_program(cl_program program)
{
    pthread_mutex_lock(&ptx_lock);
    program->references++;
    pthread_mutex_unlock(&ptx_lock);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_program(cl_program program)
{
    pthread_mutex_lock(&ptx_lock);
    bool last = --program->references == 0;
    pthread_mutex_unlock(&ptx_lock);
    if (!last)
        return CL_SUCCESS;
    ptx_module_free(&program->module);
    free(program->source);
    free(program->binary);
    free(program->ptx);
    free(program->log);
    free(program->options);
    free(program);
    return CL_SUCCESS;
}

static void set_log(cl_program program, const char *text)
{
    free(program->log);
    program->log = strdup(text ? text : "");
}

/* True if the PTX can run on this device: its target is not newer, a target with "a" is the device's own,
 * and instructions of "sm_90a" need such a target and .version 8.0. Also simulates the faults of
 * CLTRAIN_PTX_REFUSE. */
static bool is_for_this(cl_program program, const char *ptx)
{
    char text[300] = "", suffix = '\0';
    unsigned target = 0, major = 0, minor = 0;
    const char *at = strstr(ptx, ".target sm_"), *version = strstr(ptx, ".version ");
    int read = at ? sscanf(at, ".target sm_%u%c", &target, &suffix) : 0;
    bool accelerated = read == 2 && suffix == 'a', products = false, large = false;
    if (version)
        sscanf(version, ".version %u.%u", &major, &minor);
    if (accelerated && ptx_refuses("abort"))
        abort();
    while (accelerated && ptx_refuses("hang"))
        pause();
    for (size_t k = 0; k < program->module.n_kernels; k++) {
        products |= program->module.kernels[k].products;
        large |= program->module.kernels[k].shared_bytes > 48 << 10;
    }
    if (read == 0 || target > ptx_generation() || (accelerated && target != ptx_generation()))
        snprintf(text, sizeof text, "the PTX is for sm_%u%s, the device is sm_%u", target,
                 accelerated ? "a" : "", ptx_generation());
    else if (accelerated && ptx_refuses("build"))
        snprintf(text, sizeof text, "programs for sm_%ua are refused", target);
    else if (accelerated && large && ptx_refuses("large"))
        snprintf(text, sizeof text, "a program for sm_%ua uses too much shared data", target);
    else if (products && !accelerated)
        snprintf(text, sizeof text, "wgmma cannot be compiled for .target sm_%u", target);
    else if (products && major < 8)
        snprintf(text, sizeof text, "wgmma needs .version 8.0, not %u.%u", major, minor);
    if (text[0])
        set_log(program, text);
    return !text[0];
}

/* The largest number in the text that stands before the word `unit`. */
static long largest_before(const char *log, const char *unit)
{
    long largest = 0;
    for (const char *at = log; (at = strstr(at, unit)) != NULL; at += strlen(unit)) {
        const char *digit = at;
        while (digit > log && digit[-1] >= '0' && digit[-1] <= '9')
            digit--;
        long number = strtol(digit, NULL, 10);
        largest = number > largest ? number : largest;
    }
    return largest;
}

static void record_resources(cl_program program, const char *log)
{
    const char *path = ptx_setting("CLTRAIN_PTX_RESOURCES", "");
    FILE *file = path[0] && program->module.n_kernels > 0 ? fopen(path, "ab") : NULL;
    long stores = largest_before(log, " bytes spill stores"),
         loads = largest_before(log, " bytes spill loads");
    if (!file)
        return;
    fprintf(file, "%s %ld %ld %.3000s\n", program->module.kernels[0].name, largest_before(log, " registers"),
            stores > loads ? stores : loads, program->options);
    fclose(file);
}

/* Runs NVIDIA's assembler, if it is installed. */
static bool assembled(cl_program program, const char *ptx)
{
    char *log = NULL;
    if (!ptx_nvidia())
        return true;
    bool verbose = strstr(program->options, "-cl-nv-verbose") != NULL;
    bool record = ptx_setting("CLTRAIN_PTX_RESOURCES", "")[0] != '\0';
    bool ok = ptx_nvidia_assemble(ptx, verbose || record, &log);
    if (log && (verbose || !ok))
        set_log(program, log);
    if (ok && record)
        record_resources(program, log ? log : "");
    free(log);
    return ok;
}

/* Checks limits that NVIDIA's assembler checks, too. */
static bool fits(cl_program program, const char *ptx)
{
    char text[300];
    uint32_t most = strstr(ptx, ".target sm_90a") != NULL ? ptx_local_memory_90a() : ptx_local_array();
    for (size_t k = 0; k < program->module.n_kernels; k++) {
        const ptx_kernel *kernel = &program->module.kernels[k];
        if (kernel->shared_bytes <= most)
            continue;
        snprintf(text, sizeof text, "entry function '%s' uses too much shared data (0x%x bytes, 0x%x max)",
                 kernel->name, kernel->shared_bytes, most);
        set_log(program, text);
        return false;
    }
    return true;
}

static cl_int CL_API_CALL build_program(cl_program program, cl_uint n, const cl_device_id *ids,
                                        const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                                        void *data)
{
    char *ptx, *log, message[PTX_TEXT];
    cl_int refused = ptx_lasting_failure();
    (void)n, (void)ids;
    if (refused != CL_SUCCESS)
        return refused;
    free(program->options);
    program->options = strdup(options ? options : "");
    program->status = CL_BUILD_ERROR;
    bool ok = program->source ? ptx_compile(program->source, program->options, &ptx, &log) : true;
    if (!program->source) { /* made from a binary; as on NVIDIA's devices, a binary is PTX */
        ptx = strdup(program->binary);
        log = NULL;
    }
    set_log(program, log);
    free(log);
    if (ok && !ptx_parse(ptx, &program->module, message)) {
        set_log(program, message);
        ok = false;
    }
    free(program->ptx);
    program->ptx = ok ? ptx : NULL;
    if (ok && is_for_this(program, ptx) && fits(program, ptx) && assembled(program, ptx))
        program->status = CL_BUILD_SUCCESS;
    if (notify)
        notify(program, data);
    return program->status == CL_BUILD_SUCCESS ? CL_SUCCESS : CL_BUILD_PROGRAM_FAILURE;
}

static cl_int CL_API_CALL build_info(cl_program program, cl_device_id id, cl_program_build_info what,
                                     size_t size, void *out, size_t *needed)
{
    const char *log = program->log ? program->log : "", *options = program->options ? program->options : "";
    (void)id;
    switch (what) {
    case CL_PROGRAM_BUILD_LOG:
        return ptx_answer(log, strlen(log) + 1, size, out, needed);
    case CL_PROGRAM_BUILD_OPTIONS:
        return ptx_answer(options, strlen(options) + 1, size, out, needed);
    case CL_PROGRAM_BUILD_STATUS:
        return ptx_answer(&program->status, sizeof program->status, size, out, needed);
    default:
        return CL_INVALID_VALUE;
    }
}

/* --- kernels --- */

static cl_kernel CL_API_CALL create_kernel(cl_program program, const char *name, cl_int *code)
{
    ptx_kernel *found = program->status == CL_BUILD_SUCCESS ? ptx_find(&program->module, name) : NULL;
    cl_kernel kernel = found ? calloc(1, sizeof *kernel) : NULL;
    *code = found ? CL_OUT_OF_HOST_MEMORY : CL_INVALID_KERNEL_NAME;
    if (!kernel)
        return NULL;
    *kernel =
        (struct _cl_kernel){.dispatch = &ptx_dispatch, .references = 1, .program = program, .code = found};
    kernel->params = calloc(found->param_bytes + 1, 1);
    kernel->shared = calloc(found->n_params + 1, sizeof *kernel->shared);
    kernel->is_set = calloc(found->n_params + 1, sizeof *kernel->is_set);
    retain_program(program);
    *code = CL_SUCCESS;
    return kernel;
}

static cl_int CL_API_CALL retain_kernel(cl_kernel kernel)
{
    pthread_mutex_lock(&ptx_lock);
    kernel->references++;
    pthread_mutex_unlock(&ptx_lock);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_kernel(cl_kernel kernel)
{
    pthread_mutex_lock(&ptx_lock);
    bool last = --kernel->references == 0;
    pthread_mutex_unlock(&ptx_lock);
    if (!last)
        return CL_SUCCESS;
    release_program(kernel->program);
    free(kernel->params);
    free(kernel->shared);
    free(kernel->is_set);
    free(kernel);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL set_arg(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    if (index >= kernel->code->n_params)
        return CL_INVALID_ARG_INDEX;
    const ptx_param *p = &kernel->code->params[index];
    uint64_t address = 0;
    if (p->kind == PTX_SHARED_BUFFER) {
        if (value || size == 0)
            return CL_INVALID_ARG_VALUE;
        kernel->shared[index] = (uint32_t)size;
    } else if (p->kind == PTX_BUFFER) {
        if (size != sizeof(cl_mem))
            return CL_INVALID_ARG_SIZE;
        cl_mem mem = value ? *(const cl_mem *)value : NULL;
        address = mem ? (uint64_t)mem->number << PTX_BUFFER_SHIFT : 0;
        memcpy(kernel->params + p->offset, &address, sizeof address);
    } else {
        if (size != p->bytes)
            return CL_INVALID_ARG_SIZE;
        memcpy(kernel->params + p->offset, value, size);
    }
    kernel->is_set[index] = true;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL kernel_info(cl_kernel kernel, cl_kernel_info what, size_t size, void *out,
                                      size_t *needed)
{
    cl_uint n = (cl_uint)kernel->code->n_params;
    if (what == CL_KERNEL_NUM_ARGS)
        return ptx_answer(&n, sizeof n, size, out, needed);
    if (what == CL_KERNEL_FUNCTION_NAME)
        return ptx_answer(kernel->code->name, strlen(kernel->code->name) + 1, size, out, needed);
    return CL_INVALID_VALUE;
}

static cl_int CL_API_CALL group_info(cl_kernel kernel, cl_device_id id, cl_kernel_work_group_info what,
                                     size_t size, void *out, size_t *needed)
{
    const uint32_t *group = kernel->code->group;
    size_t most = group[0] ? (size_t)group[0] * group[1] * group[2] : 1024, warp = PTX_LANES;
    size_t compile[3] = {group[0], group[1], group[2]};
    cl_ulong local = kernel->code->shared_bytes, own = kernel->code->local_bytes;
    (void)id;
    for (size_t i = 0; i < kernel->code->n_params; i++)
        local += kernel->shared[i];
    switch (what) {
    case CL_KERNEL_WORK_GROUP_SIZE:
        return ptx_answer(&most, sizeof most, size, out, needed);
    case CL_KERNEL_COMPILE_WORK_GROUP_SIZE:
        return ptx_answer(compile, sizeof compile, size, out, needed);
    case CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE:
        return ptx_answer(&warp, sizeof warp, size, out, needed);
    case CL_KERNEL_LOCAL_MEM_SIZE:
        return ptx_answer(&local, sizeof local, size, out, needed);
    case CL_KERNEL_PRIVATE_MEM_SIZE:
        return ptx_answer(&own, sizeof own, size, out, needed);
    default:
        return CL_INVALID_VALUE;
    }
}

void ptx_program_entries(cl_icd_dispatch *d)
{
    d->clCreateProgramWithSource = create_program;
    d->clRetainProgram = retain_program;
    d->clReleaseProgram = release_program;
    d->clCreateProgramWithBinary = create_from_binary;
    d->clGetProgramInfo = program_info;
    d->clBuildProgram = build_program;
    d->clGetProgramBuildInfo = build_info;
    d->clCreateKernel = create_kernel;
    d->clRetainKernel = retain_kernel;
    d->clReleaseKernel = release_kernel;
    d->clSetKernelArg = set_arg;
    d->clGetKernelInfo = kernel_info;
    d->clGetKernelWorkGroupInfo = group_info;
}
