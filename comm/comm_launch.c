/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds out how this process was started and loads its transport: reads the launcher's environment, searches
 * for the MPI module, checks that module and program belong together. It must not call MPI itself. */
#include "comm/comm_internal.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"

static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

bool comm_under_launcher(void)
{
    /* Who sets them: Open MPI's mpirun; MPICH's and Intel's Hydra and srun --mpi=pmi2 (PMI_SIZE, PMI_RANK);
     * srun --mpi=pmix and PRRTE. */
    static const char *const signs[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (environment(signs[i]))
            return true;
    /* A batch script has SLURM_PROCID too, so the variable counts only together with a PMI connection. */
    return environment("SLURM_PROCID") && (environment("PMI_FD") || environment("PMIX_NAMESPACE"));
}

/* The positive integer in the text; 0 if there is none or text is NULL. */
static int count_in(const char *text)
{
    char *end = NULL;
    if (!text)
        return 0;
    long count = strtol(text, &end, 10);
    return *end == '\0' && count > 0 && count <= INT_MAX ? (int)count : 0;
}

int comm_tasks_alone(void)
{
    if (comm_under_launcher() || !environment("SLURM_PROCID"))
        return 1;
    /* SLURM_NTASKS alone does not count: a batch script has it, too, though it is one process outside any
     * step. */
    bool in_step = environment("SLURM_STEP_ID") || environment("SLURM_STEPID");
    int tasks = count_in(environment("SLURM_STEP_NUM_TASKS"));
    if (tasks == 0 && in_step)
        tasks = count_in(environment("SLURM_NTASKS"));
    return tasks > 1 ? tasks : 1;
}

void comm_warn_if_alone(void)
{
    int tasks = comm_tasks_alone();
    if (tasks > 1)
        CLT_WARN("srun started %d tasks without PMI, so each of them does the whole work by itself; to let "
                 "them work together use srun --mpi=pmix (or pmi2; 'srun --mpi=list' shows what there is)",
                 tasks);
}

int comm_launcher_ranks(void)
{
    const char *text = environment("OMPI_COMM_WORLD_SIZE");
    if (!text)
        text = environment("PMI_SIZE");
    return count_in(text);
}

static const comm_transport *load_file(const char *path, clt_str *tried)
{
    if (access(path, F_OK) != 0) {
        clt_str_printf(tried, "\n  %s: no such file", path);
        return NULL;
    }
    /* Open MPI's own plug-ins look for its symbols in the global scope. */
    void *handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!handle) {
        const char *why = dlerror();
        clt_str_printf(tried, "\n  %s: cannot be loaded: %s", path, why ? why : "unknown reason");
        return NULL;
    }
    const comm_transport *transport = dlsym(handle, COMM_MODULE_SYMBOL);
    if (!transport) {
        clt_str_printf(tried, "\n  %s: is not a transport module (no symbol %s)", path, COMM_MODULE_SYMBOL);
        dlclose(handle);
        return NULL;
    }
    if (transport->abi_version != COMM_ABI_VERSION) {
        clt_str_printf(
            tried, "\n  %s: has interface version %d, this program needs %d (built from another version?)",
            path, transport->abi_version, COMM_ABI_VERSION);
        dlclose(handle);
        return NULL;
    }
    CLT_DEBUG("transport module %s", path);
    return transport;
}

clt_status comm_load_module(const char *const *folders, size_t count, const comm_transport **out)
{
    *out = NULL;
    clt_status status = CLT_OK;
    clt_str path = {0}, tried = {0};
    for (size_t i = 0; i < count && !*out; i++) {
        path.length = 0;
        clt_str_printf(&path, "%s/%s", folders[i], COMM_MODULE_FILE);
        CLT_TRY_GOTO(clt_str_check(&path), done);
        *out = load_file(path.text, &tried);
    }
    CLT_TRY_GOTO(clt_str_check(&tried), done);
    if (*out && tried.text && strstr(tried.text, "cannot be loaded"))
        CLT_WARN("an MPI module was passed over:%s", tried.text);
    if (!*out)
        CLT_FAIL_GOTO(
            CLT_ECOMM, done,
            "a launcher (mpirun or srun) started this process, but the MPI transport could not be loaded; "
            "tried:%s\nInstall cltrain with its MPI module (CLTRAIN_MPI=ON) and the MPI that it was built "
            "with, set CLTRAIN_MODULE_DIR to the module's folder, or start one process without a launcher",
            tried.text ? tried.text : " no folder");
done:
    clt_str_free(&path);
    clt_str_free(&tried);
    return status;
}

/* The folder of the running program, "" if it is unknown. */
static void program_folder(char *folder, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", folder, size - 1);
    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
}

/* The folders in which modules may be, in the order in which they are tried. */
typedef struct module_folders {
    const char *folder[4];
    size_t count;
    char program[PATH_MAX], beside[PATH_MAX + 128];
} module_folders;

static void find_folders(module_folders *f)
{
    f->count = 0;
    if (environment("CLTRAIN_MODULE_DIR"))
        f->folder[f->count++] = environment("CLTRAIN_MODULE_DIR");
    program_folder(f->program, sizeof f->program);
    if (f->program[0]) {
        (void)snprintf(f->beside, sizeof f->beside, "%s/" CLT_MODULE_FROM_PROGRAM, f->program);
        f->folder[f->count++] = f->program;
        f->folder[f->count++] = f->beside;
    }
#ifdef CLT_MODULE_DIR
    f->folder[f->count++] = CLT_MODULE_DIR;
#endif
}

bool comm_module_file(const char *name, char *path, size_t size)
{
    module_folders f;
    find_folders(&f);
    for (size_t i = 0; i < f.count; i++) {
        int length = snprintf(path, size, "%s/%s", f.folder[i], name);
        if (length > 0 && (size_t)length < size && access(path, R_OK) == 0)
            return true;
    }
    return false;
}

clt_status comm_load_mpi(const comm_transport **out)
{
    module_folders f;
    find_folders(&f);
    return comm_load_module(f.folder, f.count, out);
}
