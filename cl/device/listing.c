/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists devices in a child process first, and finds the drivers that crash or hang there, so that this
 * process does not load them. Only the child calls OpenCL functions. */
#include "cl/device/listing.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cl/device/internal.h"
#include "cl/device/pocl.h"
#include "cl/drivers/icd.h"
#include "cl/drivers/icd_entry.h"
#include "cl/drivers/icd_folder.h"
#include "cl/drivers/icd_loader.h"
#include "cl/drivers/siblings.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/files/cache_folder.h"
#include "engine/files/fileio.h"
#include "engine/host/child.h"
#include "engine/host/find_program.h"
#include "engine/files/process.h"
#include "engine/json/json.h"
#include "engine/json/json_seal.h"

/* with many GPUs whose kernel module must be loaded first, listing takes tens of seconds */
#define LIST_SECONDS 60.0
#define MAX_DEAD 16
#define FORMAT_NAME "cltrain-listing"
#define SEAL "hash"
#define STALE "stale_cache"     /* what a child writes for OCL_QUIRK_STALE_CACHE; also a key of the file */
#define LISTED "CLTRAIN_LISTED" /* set for children, because the parent has listed the devices */

static ocl_dead_driver dead[MAX_DEAD];
static int n_dead;
/* a device has OCL_QUIRK_STALE_CACHE: PoCL's kernel cache must be switched off before PoCL is loaded */
static bool stale_cache;
static bool hung; /* a driver did not answer within its time limit */
static bool ask_again;
static bool is_listing_child;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int ocl_listing_dead(const ocl_dead_driver **list)
{
    *list = dead;
    return n_dead;
}

void ocl_listing_again(void)
{
    ask_again = true;
}

clt_status ocl_listing_serve(void)
{
    ocl_found *found = NULL;
    int count;
    CLT_TRY(clt_child_begin());
    CLT_TRY(clt_child_say("listing"));
    is_listing_child = true;
    bool listed = ocl_enumerate(&found, &count) == CLT_OK; /* an empty list is a valid answer */
    clt_status status = CLT_OK;
    for (int i = 0; listed && i < count && status == CLT_OK; i++)
        if (found[i].desc.quirks & OCL_QUIRK_STALE_CACHE)
            status = clt_child_say(STALE);
    free(found);
    CLT_TRY(status);
    return clt_child_say("done");
}

/* --- the drivers that the loader would load --- */

typedef struct sources {
    const char *variable; /* environment variable that tells the loader the folder; NULL: none */
    const char *folder;   /* folder of ICD files; NULL: a variable names libraries or files instead */
    ocl_icd_entry *entries;
    size_t n;
    uint64_t key;
} sources;

static clt_status find_sources(sources *s)
{
    const ocl_icd_report *report = ocl_icd_prepare();
    ocl_loader_reads reads = ocl_loader_variables();
    const char *vendors = getenv("OCL_ICD_VENDORS"), *path = getenv("OPENCL_VENDOR_PATH");
    int error;
    s->variable = reads.vendors ? "OCL_ICD_VENDORS" : reads.vendor_path ? "OPENCL_VENDOR_PATH" : NULL;
    if (vendors != NULL && vendors[0] != '\0' && reads.vendors)
        s->folder = clt_is_directory(vendors) ? vendors : NULL;
    else if (path != NULL && path[0] != '\0' && reads.vendor_path)
        s->folder = clt_is_directory(path) ? path : NULL;
    else
        s->folder = report->system;
    return s->folder ? ocl_icd_folder_read(s->folder, &s->entries, &s->n, &error) : CLT_OK;
}

static uint64_t hash_text(const char *text)
{
    return clt_hash64(text, strlen(text));
}

/* Hash of a file's identity, which changes when the file is replaced and other devices may be listed. */
static uint64_t hash_file(const char *path)
{
    struct stat info;
    char text[256];
    if (path == NULL || stat(path, &info) != 0)
        return 1;
    snprintf(text, sizeof text, "%llu %llu %lld %lld.%09ld", (unsigned long long)info.st_dev,
             (unsigned long long)info.st_ino, (long long)info.st_size, (long long)info.st_mtim.tv_sec,
             info.st_mtim.tv_nsec);
    return hash_text(path) * 31 + hash_text(text);
}

static bool steers_drivers(const char *variable)
{
    static const char *const prefixes[] = {"OCL_",  "OPENCL_", "POCL_",    "CUDA_", "NVIDIA_", "ROCR_",
                                           "HIP_",  "ZE_",     "RUSTICL_", "MESA_", "GALLIUM", "LP_",
                                           "LIBGL", "LD_",     "SYCL_",    "GPU_",  "INTEL_",  "HSA_"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

extern char **environ;

static void make_key(sources *s)
{
    char loader[OCL_LOADER_PATH], boot[64];
    uint64_t sum = hash_text(FORMAT_NAME " 2 " CLT_VERSION);
    for (char **at = environ; *at != NULL; at++) /* in any order */
        if (steers_drivers(*at))
            sum += hash_text(*at);
    if (ocl_loader_file(loader, sizeof loader))
        sum += hash_file(loader);
    for (size_t i = 0; i < s->n; i++) {
        char *file = ocl_icd_locate(s->entries[i].library);
        sum = sum * 1000003 + hash_text(s->entries[i].path) + hash_text(s->entries[i].library) +
              hash_file(file);
        free(file);
    }
    clt_boot_identity(boot, sizeof boot);
    s->key = sum + hash_text(boot);
}

/* --- remembering --- */

static clt_status memory_path(const sources *s, char **out)
{
    char name[64], text[CLT_HASH64_TEXT];
    snprintf(name, sizeof name, "%s.json", clt_hash64_text(s->key, text));
    return clt_cache_file("listing", name, out);
}

static bool take_capabilities(const clt_json *root)
{
    const clt_json *list = clt_json_get(root, "dead"), *stale = clt_json_get(root, STALE);
    if (!clt_json_is(clt_json_get(root, "format"), FORMAT_NAME) || clt_json_typeof(list) != CLT_JSON_ARRAY ||
        clt_json_typeof(stale) != CLT_JSON_BOOL)
        return false;
    stale_cache = clt_json_bool(stale);
    for (const clt_json *at = clt_json_first(list); at != NULL; at = clt_json_next(at)) {
        ocl_dead_driver *d = &dead[n_dead];
        if (n_dead++ == MAX_DEAD ||
            !clt_json_copy_string(clt_json_get(at, "entry"), d->entry, sizeof d->entry) ||
            !clt_json_copy_string(clt_json_get(at, "library"), d->library, sizeof d->library) ||
            !clt_json_copy_string(clt_json_get(at, "reason"), d->reason, sizeof d->reason))
            return false;
    }
    return true;
}

/* Reads the remembered result; false: there is no valid one. */
static bool recall(const sources *s)
{
    CLT_FREED char *path = NULL;
    CLT_FREED char *text = NULL;
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    size_t length;
    bool known = !ask_again && memory_path(s, &path) == CLT_OK && clt_file_exists(path) &&
                 clt_file_read(path, false, 1 << 20, CLT_EDATA, &text, &length) == CLT_OK &&
                 clt_json_sealed(text, length, SEAL) &&
                 clt_json_parse(text, length, path, CLT_EDATA, &doc) == CLT_OK &&
                 take_capabilities(clt_json_root(doc));
    if (!known) {
        n_dead = 0;
        stale_cache = false;
    }
    hung = n_dead > 0; /* a result with dead drivers is remembered only if one of them hung */
    clt_error_clear();
    return known;
}

static clt_status remember(const sources *s)
{
    CLT_FREED char *path = NULL;
    CLT_SCOPED(clt_str) text = {0};
    clt_json_writer w = clt_json_writer_make(&text, 2);
    clt_jw_object(&w);
    clt_jw_kstring(&w, "format", FORMAT_NAME);
    clt_jw_kbool(&w, STALE, stale_cache);
    clt_jw_karray(&w, "dead");
    for (int i = 0; i < n_dead; i++) {
        clt_jw_object(&w);
        clt_jw_kstring(&w, "entry", dead[i].entry);
        clt_jw_kstring(&w, "library", dead[i].library);
        clt_jw_kstring(&w, "reason", dead[i].reason);
        clt_jw_end_object(&w);
    }
    clt_jw_end_array(&w);
    CLT_TRY(clt_json_seal(&text, 0, SEAL));
    CLT_TRY(memory_path(s, &path));
    return clt_file_write(path, text.text, text.length);
}

/* --- asking --- */

/* Sets *good if a child can list the devices with the current environment; if not, `why` gets the reason.
 * *sure becomes false if the next start may have another result. */
static clt_status lists(const char *program, bool *good, bool *sure, char *why, size_t size)
{
    static const char *const arguments[] = {"probe", "--list", NULL};
    const char *line;
    double limit = ocl_probe_limit(LIST_SECONDS);
    clt_child *child;
    clt_child_end end;
    CLT_TRY(clt_child_start(program, arguments, 0, &child));
    clt_child_event event = clt_child_next_awake(child, limit, &line);
    bool greeted = event == CLT_CHILD_LINE && strcmp(line, "listing") == 0;
    while (greeted && (event = clt_child_next_awake(child, limit, &line)) == CLT_CHILD_LINE &&
           strcmp(line, STALE) == 0)
        stale_cache = true;
    *good = event == CLT_CHILD_LINE && strcmp(line, "done") == 0;
    clt_child_stop(child, &end);
    if (!greeted)
        CLT_FAIL(CLT_EUNSUPPORTED, "'%s' does not answer as this version of cltrain does: %s %s", program,
                 end.text, end.last_line);
    /* SIGKILL may come from a temporary lack of memory. */
    *sure = *sure && (*good || event == CLT_CHILD_SILENT || end.signal != SIGKILL);
    hung = hung || event == CLT_CHILD_SILENT;
    if (!*good)
        clt_child_loss(&end, "it ended the process with", "it did not answer in", NULL, why, size);
    return CLT_OK;
}

static const char *file_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_dead(const ocl_icd_entry *entry)
{
    for (int i = 0; i < n_dead; i++)
        if (strcmp(dead[i].entry, file_part(entry->path)) == 0)
            return true;
    return false;
}

/* Makes the loader use only the entries before `end` that are not marked dead. */
static clt_status name_living(const sources *s, size_t end)
{
    CLT_FREED ocl_icd_file *files = NULL;
    CLT_FREED char *folder = NULL;
    size_t count = 0;
    CLT_TRY(clt_alloc(&files, s->n + 1, sizeof *files, "ICD entries"));
    for (size_t i = 0; i < end; i++)
        if (s->entries[i].library[0] != '\0' && !is_dead(&s->entries[i]))
            files[count++] = (ocl_icd_file){file_part(s->entries[i].path), s->entries[i].library};
    CLT_TRY(ocl_icd_folder_make(files, count, &folder));
    setenv(s->variable, folder, 1);
    setenv("CLTRAIN_ICD_MADE", folder, 1);
    return CLT_OK;
}

/* Adds one driver after the other, and drops each that crashes or hangs, alone or together with the drivers
 * kept so far. */
static clt_status find_dead(const sources *s, const char *program, bool *sure)
{
    char no_driver[OCL_REASON_SIZE] = "";
    bool harmless = true;
    CLT_TRY(name_living(s, 0));
    CLT_TRY(lists(program, &harmless, sure, no_driver, sizeof no_driver));
    if (!harmless)
        CLT_FAIL(CLT_EDEVICE,
                 "listing OpenCL devices crashes or hangs even without any driver's ICD file: %s; look at "
                 "OCL_ICD_FILENAMES, OPENCL_LAYERS and LD_PRELOAD",
                 no_driver);
    for (size_t i = 0; i < s->n; i++) {
        char why[OCL_REASON_SIZE] = "";
        bool good = true;
        if (s->entries[i].library[0] == '\0')
            continue;
        CLT_TRY(name_living(s, i + 1));
        CLT_TRY(lists(program, &good, sure, why, sizeof why));
        if (good || n_dead == MAX_DEAD)
            continue;
        ocl_dead_driver *d = &dead[n_dead++];
        snprintf(d->entry, sizeof d->entry, "%s", file_part(s->entries[i].path));
        snprintf(d->library, sizeof d->library, "%s", s->entries[i].library);
        snprintf(d->reason, sizeof d->reason, "%s", why);
    }
    return CLT_OK;
}

static clt_status ask(const sources *s)
{
    CLT_FREED char *program = NULL;
    char why[OCL_REASON_SIZE] = "";
    bool good = true, sure = true;
    clt_status status = clt_program_find(&program);
    if (status == CLT_OK)
        status = lists(program, &good, &sure, why, sizeof why);
    if (status == CLT_EUNSUPPORTED) { /* no child can be started: reported when capabilities are tested */
        CLT_DEBUG("%s", clt_error_text());
        clt_error_clear();
        return CLT_OK;
    }
    CLT_TRY(status);
    if (!good && (s->n == 0 || s->variable == NULL))
        CLT_FAIL(
            CLT_EDEVICE,
            "an OpenCL driver cannot list its devices: %s; run 'cltrain doctor' with one driver at a time "
            "(OCL_ICD_VENDORS)",
            why);
    if (!good)
        CLT_TRY(find_dead(s, program, &sure));
    /* A result with a driver that hangs is remembered, because otherwise every start would wait for it. A
     * driver that crashes does so immediately, and perhaps only in this environment, such as a container
     * without /sys: the next start tries it again. */
    if (sure && (n_dead == 0 || hung) && remember(s) != CLT_OK) {
        CLT_DEBUG("%s", clt_error_text());
        clt_error_clear();
    }
    return CLT_OK;
}

static clt_status apply(const sources *s)
{
    if (stale_cache)
        setenv("POCL_KERNEL_CACHE", "0", 0);
    if (n_dead == 0)
        return CLT_OK;
    for (int i = 0; i < n_dead; i++)
        CLT_WARN(
            "the OpenCL driver %s (%s) is not used, because listing its devices crashes or hangs: %s; %s",
            dead[i].library, dead[i].entry, dead[i].reason,
            hung ? "'cltrain devices --again' tries it again" : "the next start tries it again");
    return name_living(s, s->n);
}

/* Finds out, or reads from the cache, which drivers crash or hang, and keeps the loader from loading
 * them. */
static clt_status exclude_dead(sources *s)
{
    make_key(s);
    CLT_TRY(recall(s) ? CLT_OK : ask(s));
    CLT_TRY(apply(s));
    /* only our children get this variable, because they list the same drivers; other programs may list
     * others */
    clt_child_tell(LISTED "=1");
    return CLT_OK;
}

/* Loads libraries that a driver opens by name and the dynamic linker would not find. */
static void load_siblings_of(const char *library)
{
    CLT_FREED char *path = ocl_icd_locate(library);
    if (path == NULL || !ocl_has_siblings(path))
        return;
    CLT_SCOPED(ocl_siblings) siblings = {0};
    ocl_siblings_find(path, &siblings);
    ocl_siblings_load(&siblings);
}

/* A variable's libraries and ICD files, separated by colons. */
static void load_siblings_named(const char *list)
{
    char name[1024];
    for (const char *at = list != NULL ? list : ""; *at != '\0';) {
        size_t length = strcspn(at, ":");
        ocl_icd_entry entry;
        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), at);
        if (length < 4 || strcmp(name + strlen(name) - 4, ".icd") != 0)
            load_siblings_of(name);
        else if (ocl_icd_entry_read(name, &entry) == CLT_OK) {
            load_siblings_of(entry.library);
            ocl_icd_entry_free(&entry);
        }
        at += length + (at[length] == ':');
    }
    clt_error_clear();
}

static void load_siblings(const sources *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (!is_dead(&s->entries[i]))
            load_siblings_of(s->entries[i].library);
    load_siblings_named(getenv("OCL_ICD_FILENAMES"));
    if (s->folder == NULL)
        load_siblings_named(getenv("OCL_ICD_VENDORS"));
}

/* Whether a variable names PoCL's library, or an ICD file that does. */
static bool variable_names_pocl(const char *value)
{
    if (value == NULL || strstr(value, "pocl") != NULL)
        return value != NULL;
    CLT_SCOPED(ocl_icd_entry) entry = {0};
    return ocl_icd_entry_read(value, &entry) == CLT_OK && strstr(entry.library, "pocl") != NULL;
}

static bool has_pocl(const sources *s)
{
    bool there = variable_names_pocl(getenv("OCL_ICD_FILENAMES")) ||
                 (s->folder == NULL && variable_names_pocl(getenv("OCL_ICD_VENDORS")));
    for (size_t i = 0; i < s->n && !there; i++) {
        char real[PATH_MAX];
        CLT_FREED char *path = ocl_icd_locate(s->entries[i].library);
        there = strstr(s->entries[i].library, "pocl") != NULL ||
                (path != NULL && realpath(path, real) != NULL && strstr(file_part(real), "pocl") != NULL);
    }
    clt_error_clear();
    return there;
}

static clt_status prepare(sources *s)
{
    /* the parent has done this for its children, and they inherit its choice of drivers by the
     * environment */
    bool settled = is_listing_child || getenv(LISTED) != NULL;
    CLT_TRY(find_sources(s));
    if (!settled && has_pocl(s))
        CLT_TRY(ocl_pocl_prepare());
    if (!settled)
        CLT_TRY(exclude_dead(s));
    load_siblings(s);
    return CLT_OK;
}

clt_status ocl_listing_prepare(void)
{
    static bool done;
    sources s = {0};
    CLT_LOCKED(&lock);
    clt_status status = done ? CLT_OK : prepare(&s);
    ocl_icd_entries_free(s.entries, s.n);
    done = status == CLT_OK;
    return status;
}
