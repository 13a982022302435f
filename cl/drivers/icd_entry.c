/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads ICD entries and finds the libraries that they name, as the dynamic linker would, without loading
 * any. This file must not know which drivers exist, nor what is wrong with an entry. */
#include "cl/drivers/icd_entry.h"

#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cl/drivers/icd_loader.h"
#include "engine/base/mem.h"
#include "engine/files/fileio.h"

/* Entries */

/* Cuts the text to its first line, without blanks at both ends and without the UTF-8 byte order mark of some
 * editors. */
static size_t trim_line(char *line)
{
    line[strcspn(line, "\r\n")] = '\0';
    size_t mark = strncmp(line, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    size_t start = mark + strspn(line + mark, " \t"), length = strlen(line);
    while (length > start && (line[length - 1] == ' ' || line[length - 1] == '\t'))
        length--;
    memmove(line, line + start, length - start);
    line[length - start] = '\0';
    return length - start;
}

clt_status ocl_icd_entry_read(const char *path, ocl_icd_entry *out)
{
    char text[4096] = "";
    *out = (ocl_icd_entry){0};
    FILE *file = fopen(path, "re");
    size_t size = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    out->error = file == NULL || ferror(file) ? errno : 0;
    if (file != NULL)
        (void)fclose(file);
    text[size] = '\0';
    bool line_end = size > 0 && text[size - 1] == '\n';
    size_t length = trim_line(text);
    out->path = strdup(path);
    out->library = strdup(text);
    /* plain: the file has only the line. Trimming moves the line to the start of the text, and finds nothing
     * to trim in a plain file. */
    out->plain = length > 0 && size == length + line_end;
    if (out->path != NULL && out->library != NULL)
        return CLT_OK;
    ocl_icd_entry_free(out);
    CLT_FAIL(CLT_ENOMEM, "reading the ICD file '%s': out of host memory", path);
}

void ocl_icd_entry_free(ocl_icd_entry *entry)
{
    free(entry->path);
    free(entry->library);
    *entry = (ocl_icd_entry){0};
}

void ocl_icd_entries_free(ocl_icd_entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ocl_icd_entry_free(&entries[i]);
    free(entries);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const ocl_icd_entry *)a)->path, ((const ocl_icd_entry *)b)->path);
}

static clt_status add_entry(const char *folder, const char *name, ocl_icd_entry **list, size_t *capacity,
                            size_t *count)
{
    CLT_FREED char *path = NULL;
    CLT_TRY(clt_grow(list, capacity, *count + 1, sizeof **list, "ICD entries"));
    CLT_TRY(clt_path_join(folder, name, &path));
    CLT_TRY(ocl_icd_entry_read(path, &(*list)[*count]));
    (*count)++;
    return CLT_OK;
}

clt_status ocl_icd_folder_read(const char *folder, ocl_icd_entry **out, size_t *count, int *error)
{
    size_t capacity = 0;
    clt_status status = CLT_OK;
    *out = NULL;
    *count = 0;
    DIR *handle = opendir(folder);
    *error = handle == NULL ? errno : 0;
    if (handle == NULL)
        return CLT_OK;
    for (const struct dirent *item; status == CLT_OK && (item = readdir(handle)) != NULL;) {
        size_t length = strlen(item->d_name);
        if (length >= 5 && strcmp(item->d_name + length - 4, ".icd") == 0)
            status = add_entry(folder, item->d_name, out, &capacity, count);
    }
    closedir(handle);
    if (status != CLT_OK) {
        ocl_icd_entries_free(*out, *count);
        *out = NULL;
        *count = 0;
        return status;
    }
    if (*count > 1)
        qsort(*out, *count, sizeof **out, by_path);
    return CLT_OK;
}

/* Libraries */

#define ELF_BYTES 20 /* only up to the field for the machine, which has the same offset for 32 and 64 bits */

static bool read_elf_start(const char *path, unsigned char start[ELF_BYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool got = fd >= 0 && read(fd, start, ELF_BYTES) == ELF_BYTES && memcmp(start, ELFMAG, SELFMAG) == 0;
    if (fd >= 0)
        close(fd);
    return got;
}

/* Whether the library is for this processor and word size. Systems keep libraries for other machines in
 * neighbouring folders. */
static bool fits_machine(const char *path)
{
    unsigned char start[ELF_BYTES], own[ELF_BYTES];
    char loader[OCL_LOADER_PATH];
    if (!read_elf_start(path, start))
        return false;
    if (!ocl_loader_file(loader, sizeof loader) || !read_elf_start(loader, own))
        return true;
    return start[EI_CLASS] == own[EI_CLASS] && memcmp(start + 18, own + 18, 2) == 0;
}

static char *join_if_there(const char *folder, const char *name)
{
    CLT_FREED char *path = NULL;
    if (clt_path_join(folder, name, &path) == CLT_OK && fits_machine(path))
        return CLT_TAKE(path);
    clt_error_clear();
    return NULL;
}

char *ocl_icd_locate_in(const char *pattern, const char *name)
{
    glob_t found;
    char *path = NULL;
    if (glob(pattern, GLOB_ONLYDIR, NULL, &found) != 0)
        return NULL;
    for (size_t i = 0; i < found.gl_pathc && path == NULL; i++)
        path = join_if_there(found.gl_pathv[i], name);
    globfree(&found);
    return path;
}

#ifdef __GLIBC__ /* dlinfo can list the folders */
/* Searches the dynamic linker's list of folders: run paths and LD_LIBRARY_PATH or, if `standard`, the
 * folders that the linker searches after its cache. */
static char *in_search_path(const char *name, bool standard)
{
    char loader[OCL_LOADER_PATH], *path = NULL;
    Dl_serinfo size, *list = NULL;
    void *handle = ocl_loader_file(loader, sizeof loader) ? dlopen(loader, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (handle == NULL)
        handle = dlopen(NULL, RTLD_LAZY);
    if (handle == NULL)
        return NULL;
    if (dlinfo(handle, RTLD_DI_SERINFOSIZE, &size) == 0 && (list = calloc(1, size.dls_size)) != NULL) {
        list->dls_size = size.dls_size;
        list->dls_cnt = size.dls_cnt;
        if (dlinfo(handle, RTLD_DI_SERINFO, list) != 0)
            list->dls_cnt = 0;
        for (unsigned i = 0; i < list->dls_cnt && path == NULL; i++)
            if (((list->dls_serpath[i].dls_flags & LA_SER_DEFAULT) != 0) == standard)
                path = join_if_there(list->dls_serpath[i].dls_name, name);
    }
    free(list);
    dlclose(handle);
    return path;
}
#else
static char *in_search_path(const char *name, bool standard)
{
    char *path = NULL;
    const char *list = standard ? "/lib:/usr/lib" : getenv("LD_LIBRARY_PATH");
    for (const char *at = list; at != NULL && *at != '\0' && path == NULL;) {
        char folder[1024];
        size_t length = strcspn(at, ":;");
        if (length > 0 && length < sizeof folder) {
            memcpy(folder, at, length);
            folder[length] = '\0';
            path = join_if_there(folder, name);
        }
        at += length + (at[length] != '\0');
    }
    return path;
}
#endif

/* The cache that ldconfig writes: a header, then records with the offsets of a library's name and of its
 * path. */
#define CACHE_MAGIC "glibc-ld.so.cache1.1"
#define CACHE_HEADER 48
#define CACHE_RECORD 24

static uint32_t cache_word(const uint8_t *data)
{
    uint32_t value;
    memcpy(&value, data, sizeof value);
    return value;
}

/* The text at this offset, or NULL if it does not lie entirely inside the cache. */
static const char *cache_text(const uint8_t *cache, size_t size, uint32_t offset)
{
    return offset < size && memchr(cache + offset, '\0', size - offset) != NULL ? (const char *)cache + offset
                                                                                : NULL;
}

static char *in_linker_cache(const char *name)
{
    CLT_SCOPED(clt_mapping) file = {0};
    if (clt_map_open("/etc/ld.so.cache", CLT_ESTORAGE, &file) != CLT_OK) {
        clt_error_clear();
        return NULL;
    }
    /* Older versions of ldconfig write a table of another format before this one. */
    const uint8_t *cache = memmem(file.data, file.size, CACHE_MAGIC, sizeof CACHE_MAGIC - 1);
    size_t size = cache != NULL ? file.size - (size_t)(cache - file.data) : 0;
    size_t count = size >= CACHE_HEADER ? cache_word(cache + 20) : 0;
    for (size_t i = 0; i < count && CACHE_HEADER + (i + 1) * CACHE_RECORD <= size; i++) {
        const uint8_t *record = cache + CACHE_HEADER + i * CACHE_RECORD;
        const char *key = cache_text(cache, size, cache_word(record + 4));
        const char *value = cache_text(cache, size, cache_word(record + 8));
        if (key != NULL && value != NULL && strcmp(key, name) == 0 && fits_machine(value))
            return strdup(value);
    }
    return NULL;
}

char *ocl_icd_locate(const char *library)
{
    if (library[0] == '\0')
        return NULL;
    if (strchr(library, '/') != NULL)
        return fits_machine(library) ? strdup(library) : NULL;
    char *path = in_search_path(library, false);
    if (path == NULL)
        path = in_linker_cache(library);
    return path != NULL ? path : in_search_path(library, true);
}
