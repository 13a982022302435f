/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks among ranks before anything is built. Every rank decides from the same table, so none ends
 * alone. */
#include "engine/train/ranks/preflight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/files/fileio.h"
#include "engine/data/open/data_paths.h"

#define MOST_PROGRAM ((uint64_t)1 << 30) /* most bytes of the program's file that are hashed */
#define UNKNOWN_PLACE "device " /* prefix for the place of a GPU whose place on the PCI bus is unknown */

/* --- the config --- */

/* A line of a config without its indent and its comma. */
static int bare(const char **line)
{
    size_t indent = strspn(*line, " "), length = strcspn(*line, "\n");
    *line += indent;
    length -= indent;
    return (int)(length > 0 && (*line)[length - 1] == ',' ? length - 1 : length);
}

/* The first line in which two configs differ, with the section that it is in. */
static void different_line(const char *first, const char *own, char *out, size_t size)
{
    const char *section = "";
    (void)snprintf(out, size, "one of them ends earlier");
    while (*first && *own) {
        const char *a = first, *b = own;
        int m = bare(&a), n = bare(&b);
        if (m != n || memcmp(a, b, (size_t)n) != 0) {
            (void)snprintf(out, size, "%.*s%s%.*s instead of %.*s", (int)strcspn(section, ":"), section,
                           *section ? ": " : "", n, b, m, a);
            return;
        }
        if (n > 0 && b[n - 1] == '{')
            section = n > 1 ? b : "";
        first = a + strcspn(a, "\n");
        own = b + strcspn(b, "\n");
        first += *first != '\0';
        own += *own != '\0';
    }
}

/* Writes to all ranks' `message` how the config of rank `rank` differs from rank 0's. Collective. */
static clt_status tell_difference(clt_run *run, const clt_str *own, int rank, char *message, int64_t size)
{
    char line[512];
    CLT_FREED char *first = run->ranks.rank == 0 ? strdup(own->text) : NULL;
    size_t length = own->length;
    CLT_TRY(comm_share_text(run->options->comm, &first, &length, "the config of rank 0"));
    different_line(first ? first : "", own->text, line, sizeof line);
    (void)snprintf(message, (size_t)size, "rank %d on %s differs from rank 0's: %s", rank, run->ranks.host,
                   line);
    return comm_broadcast(run->options->comm, message, size, rank);
}

static clt_status compare(clt_run *run, const clt_str *own)
{
    CLT_FREED int64_t *hashes = NULL;
    int ranks = run->ranks.ranks, differs = 1;
    char message[640];
    CLT_TRY(clt_alloc(&hashes, (size_t)ranks, sizeof *hashes, "configs of ranks"));
    hashes[run->ranks.rank] = (int64_t)clt_hash64(own->text, own->length);
    CLT_TRY(comm_all_gather(run->options->comm, hashes, ranks, 1, COMM_I64));
    while (differs < ranks && hashes[differs] == hashes[0])
        differs++;
    if (differs == ranks)
        return CLT_OK;
    CLT_TRY(tell_difference(run, own, differs, message, sizeof message));
    CLT_FAIL(CLT_ERANKS,
             "the configuration of %s; start every rank with the same config and the same arguments",
             message);
}

clt_status clt_preflight_config(clt_run *run)
{
    CLT_SCOPED(clt_str) text = {0};
    if (run->ranks.ranks <= 1)
        return CLT_OK;
    CLT_TRY(clt_config_print(run->options->config, false, &text));
    return compare(run, &text);
}

/* --- what ranks tell --- */

static uint64_t hash_program(void)
{
    CLT_FREED char *bytes = NULL;
    size_t size = 0;
    if (clt_file_read("/proc/self/exe", false, MOST_PROGRAM, CLT_ESTORAGE, &bytes, &size) != CLT_OK) {
        clt_error_clear();
        return 0;
    }
    return clt_hash64(bytes, size);
}

/* The fingerprint of the data. For remote data it is computed from the list of objects: that shows just as
 * well whether all ranks read the same data, and nothing need be downloaded. */
static void tell_data(const clt_source *source, const clt_config *config, char text[CLT_HASH64_TEXT])
{
    if (source->remote)
        (void)clt_data_paths_listed(config, text);
    else
        (void)clt_source_fingerprint(source, text);
}

static void fill(const clt_run *run, const clt_nearness *near, clt_preflight_message *t)
{
    const ocl_device_desc *d = ocl_device_describe(run->device);
    const clt_source *train = run->job->train_source, *eval = run->job->eval_source;
    memset(t, 0, sizeof *t);
    memcpy(t->host, run->ranks.host, sizeof t->host);
    (void)snprintf(t->version, sizeof t->version, "%s", CLT_VERSION);
    (void)snprintf(t->platform, sizeof t->platform, "%s", d->platform);
    (void)snprintf(t->device, sizeof t->device, "%s", d->name);
    (void)snprintf(t->driver, sizeof t->driver, "%s", d->driver);
    if (d->is_gpu)
        (void)snprintf(t->place, sizeof t->place, "%s%s", d->pci[0] ? "" : UNKNOWN_PLACE,
                       d->pci[0] ? d->pci : d->spec);
    if (train)
        tell_data(train, run->options->config, t->data);
    if (eval)
        tell_data(eval, run->options->config, t->eval_data);
    t->samples = train ? train->samples : -1;
    t->program = hash_program();
    t->local_ranks = run->ranks.local_ranks;
    t->is_cpu = d->is_cpu;
    t->rounds_correctly = d->rounds_correctly;
    t->cores = clt_process_cores(getpid());
    t->launcher_cores = clt_process_cores(getppid());
    t->node = near->node;
    t->far = near->far;
}

/* --- what is refused --- */

static clt_status same_program(const clt_preflight_message *first, const clt_preflight_message *t, int rank)
{
    if (t->program == first->program && strcmp(t->version, first->version) == 0)
        return CLT_OK;
    CLT_FAIL(CLT_ERANKS,
             "rank %d on %s runs a different build of cltrain than rank 0 on %s: versions %s and %s%s; "
             "install the same build on every host",
             rank, t->host, first->host, t->version, first->version,
             strcmp(t->version, first->version) == 0 ? ", which are different builds" : "");
}

static clt_status same_data(const clt_preflight_message *first, const clt_preflight_message *t, int rank)
{
    if (t->samples != first->samples)
        CLT_FAIL(
            CLT_ERANKS,
            "rank %d on %s reads other data than rank 0 on %s: %lld training samples, and rank 0 has %lld",
            rank, t->host, first->host, (long long)t->samples, (long long)first->samples);
    bool train = strcmp(t->data, first->data) != 0;
    if (train || strcmp(t->eval_data, first->eval_data) != 0)
        CLT_FAIL(CLT_ERANKS,
                 "rank %d on %s reads other data than rank 0 on %s: the content of the %s data differs", rank,
                 t->host, first->host, train ? "training" : "evaluation");
    return CLT_OK;
}

/* Devices of one model with the same driver on the same platform, as agreement.c compares them. */
static bool same_kind(const clt_preflight_message *a, const clt_preflight_message *b)
{
    return strcmp(a->platform, b->platform) == 0 && strcmp(a->device, b->device) == 0 &&
           strcmp(a->driver, b->driver) == 0;
}

/* True if both are on one GPU: at the same place on the PCI bus, or, if that is unknown, at the same place
 * in the list of one driver. */
static bool same_gpu(const clt_preflight_message *a, const clt_preflight_message *b)
{
    bool listed = strncmp(a->place, UNKNOWN_PLACE, strlen(UNKNOWN_PLACE)) == 0;
    return a->place[0] && strcmp(a->host, b->host) == 0 && strcmp(a->place, b->place) == 0 &&
           (!listed || same_kind(a, b));
}

int clt_preflight_on_gpu(const clt_preflight_message *messages, int ranks, int rank)
{
    int count = 1;
    for (int r = 0; r < ranks; r++)
        count += r != rank && same_gpu(&messages[r], &messages[rank]);
    return count;
}

static clt_status own_device(const clt_preflight_message *messages, int rank)
{
    const clt_preflight_message *t = &messages[rank];
    for (int other = 0; other < rank; other++)
        if (same_gpu(&messages[other], t))
            CLT_FAIL(CLT_ERANKS,
                     "ranks %d and %d on %s would share the GPU '%s' (%s); start as many ranks on a host as "
                     "it has GPUs, or allow it with parallel.share_devices=true",
                     other, rank, t->host, t->device, t->place);
    return CLT_OK;
}

clt_status clt_preflight_refuse(const clt_preflight_message *messages, int ranks, bool share_devices)
{
    for (int r = 1; r < ranks; r++) {
        CLT_TRY(same_program(&messages[0], &messages[r], r));
        CLT_TRY(same_data(&messages[0], &messages[r], r));
        if (!share_devices)
            CLT_TRY(own_device(messages, r));
    }
    return CLT_OK;
}

/* --- what is said --- */

/* Cores that a rank needs: its share on a CPU device; else some for loader, communication and driver. */
static int needed_cores(const clt_preflight_message *t)
{
    enum { WITH_GPU = 4 };
    int share = t->launcher_cores / (t->local_ranks > 0 ? t->local_ranks : 1);
    return t->is_cpu || share < WITH_GPU ? share : WITH_GPU;
}

/* Warns of devices or drivers that differ. */
static void tell_kinds(const clt_preflight_message *messages, int ranks, clt_str *out)
{
    const clt_preflight_message *first = &messages[0];
    int other = 1;
    bool exact = true;
    while (other < ranks && same_kind(&messages[other], first))
        other++;
    for (int r = 0; r < ranks; r++)
        exact = exact && messages[r].rounds_correctly;
    if (other == ranks)
        return;
    clt_str_printf(
        out,
        "the ranks have different devices or drivers: rank 0 on %s has '%s' (%s, driver %s), rank %d "
        "on %s '%s' (%s, %s); a step takes as long as on the slowest of them%s\n",
        first->host, first->device, first->platform, first->driver, other, messages[other].host,
        messages[other].device, messages[other].platform, messages[other].driver,
        exact ? ""
              : "; not all of them round divisions and square roots correctly, so the parameters of "
                "different ranks may differ in their last bits");
}

void clt_preflight_warnings(const clt_preflight_message *messages, int ranks, clt_str *out)
{
    int bound = 0, shared = 0;
    tell_kinds(messages, ranks, out);
    while (shared < ranks && clt_preflight_on_gpu(messages, ranks, shared) == 1)
        shared++;
    if (shared < ranks)
        clt_str_printf(out, "%d ranks on %s share the GPU '%s' (%s) and its memory\n",
                       clt_preflight_on_gpu(messages, ranks, shared), messages[shared].host,
                       messages[shared].device, messages[shared].place);
    while (bound < ranks &&
           (messages[bound].cores == 0 || messages[bound].cores >= needed_cores(&messages[bound])))
        bound++;
    if (bound < ranks)
        clt_str_printf(out,
                       "rank %d on %s may use only %d of %d core%s: mpirun binds ranks to cores unless it is "
                       "started with --bind-to none, srun with --cpu-bind=none\n",
                       bound, messages[bound].host, messages[bound].cores, messages[bound].launcher_cores,
                       CLT_PLURAL(messages[bound].launcher_cores));
    int far = 0;
    while (far < ranks && !messages[far].far)
        far++;
    if (far < ranks)
        clt_str_printf(
            out,
            "rank %d on %s may use no core of NUMA node %d, which its GPU %s is attached to, so all that it "
            "copies crosses a link between nodes: start the ranks in the order of the GPUs, or without "
            "binding (mpirun --bind-to none, srun --cpu-bind=none)\n",
            far, messages[far].host, messages[far].node, messages[far].place);
}

int clt_preflight_sharing(const clt_preflight_message *messages, int ranks, int rank)
{
    int sharing = 0;
    if (messages[rank].node < 0) /* its node is unknown, so it is not bound */
        return 1;
    for (int r = 0; r < ranks; r++)
        sharing +=
            messages[r].node == messages[rank].node && strcmp(messages[r].host, messages[rank].host) == 0;
    return sharing;
}

static void warn(const clt_preflight_message *messages, int ranks)
{
    CLT_SCOPED(clt_str) lines = {0};
    clt_preflight_warnings(messages, ranks, &lines);
    for (char *at = lines.text; at && *at;) {
        size_t length = strcspn(at, "\n");
        CLT_WARN("%.*s", (int)length, at);
        at += length + (at[length] == '\n');
    }
}

clt_status clt_preflight(clt_run *run, const clt_nearness *near, int *sharing)
{
    CLT_FREED clt_preflight_message *messages = NULL;
    int ranks = run->ranks.ranks;
    *sharing = 1;
    if (ranks <= 1)
        return CLT_OK;
    CLT_TRY(comm_check_links(run->options->comm));
    CLT_TRY(clt_alloc(&messages, (size_t)ranks, sizeof *messages, "table of ranks"));
    fill(run, near, &messages[run->ranks.rank]);
    CLT_TRY(comm_all_gather(run->options->comm, messages, ranks * (int64_t)sizeof *messages,
                            (int64_t)sizeof *messages, COMM_U8));
    CLT_TRY(clt_preflight_refuse(messages, ranks,
                                 clt_config_bool(run->options->config, "parallel.share_devices")));
    if (run->ranks.rank == 0)
        warn(messages, ranks);
    run->on_gpu = clt_preflight_on_gpu(messages, ranks, run->ranks.rank);
    ocl_device_share(run->device, run->on_gpu);
    *sharing = clt_preflight_sharing(messages, ranks, run->ranks.rank);
    return CLT_OK;
}
