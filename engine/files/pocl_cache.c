/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses a usable folder for PoCL's kernels and removes truncated files there. It knows the layout of the
 * folder (XX/HASH/program.bc and XX/HASH/KERNEL/SIZES/KERNEL.so) and finds the end of these files from their
 * headers. */
#include "engine/files/pocl_cache.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/files/cache_folder.h"
#include "engine/files/fileio.h"
#include "engine/files/fileio_error.h"

/* Names */

/* The levels of folders in the cache: the cache itself (LEVEL_CACHE), and below it XX, HASH, KERNEL and
 * SIZES, each inside a folder of the level before. */
typedef enum level { LEVEL_CACHE, LEVEL_GROUP, LEVEL_PROGRAM, LEVEL_KERNEL, LEVEL_SIZES } level;

#define LETTERS "ABCDEFGHIJKLMNOP"
#define GROUP_LETTERS 2
#define LEAST_HASH_LETTERS 37
#define PROGRAM_FILE "program.bc"
/* older versions of PoCL write this file in addition to or instead of the library */
#define GROUPS_FILE "parallel.bc"
#define LIBRARY_END ".so"

static bool is_of_letters(const char *name, size_t least, size_t most)
{
    size_t n = strlen(name);
    return n >= least && n <= most && strspn(name, LETTERS) == n;
}

bool clt_pocl_folder_name(const char *name)
{
    return is_of_letters(name, GROUP_LETTERS, GROUP_LETTERS);
}

/* True if PoCL makes folders of this name in folders of level `here`. */
static bool is_folder_name(const char *name, level here)
{
    if (here == LEVEL_CACHE)
        return clt_pocl_folder_name(name);
    if (here == LEVEL_GROUP)
        return is_of_letters(name, LEAST_HASH_LETTERS, SIZE_MAX);
    return here < LEVEL_SIZES && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* True if PoCL puts a program or a built kernel of this name into folders of level `here`. */
static bool is_file_name(const char *name, level here, const char *kernel)
{
    size_t n = strlen(kernel);
    if (here == LEVEL_PROGRAM)
        return strcmp(name, PROGRAM_FILE) == 0;
    return here == LEVEL_SIZES && (strcmp(name, GROUPS_FILE) == 0 ||
                                   (strncmp(name, kernel, n) == 0 && strcmp(name + n, LIBRARY_END) == 0));
}

/* --- truncated files --- */

static bool read_at(int fd, uint64_t at, void *out, size_t size)
{
    return pread(fd, out, size, (off_t)at) == (ssize_t)size;
}

/* True if all parts of a library or object file that its headers name are inside the file. The last part is
 * the table of sections, which the ELF header names. */
static bool is_whole_elf(int fd, uint64_t size)
{
    ElfW(Ehdr) head;
    ElfW(Phdr) part;
    if (size < sizeof head || !read_at(fd, 0, &head, sizeof head) ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
        return false;
    if (head.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32))
        return true; /* built for another machine: not checked */
    if (head.e_shoff > size || (uint64_t)head.e_shnum * head.e_shentsize > size - head.e_shoff)
        return false;
    for (unsigned i = 0; i < head.e_phnum; i++) {
        if (!read_at(fd, head.e_phoff + (uint64_t)i * head.e_phentsize, &part, sizeof part) ||
            part.p_offset > size || part.p_filesz > size - part.p_offset)
            return false;
    }
    return true;
}

/* True if the last block of LLVM's bitcode ends where the file ends. Each block begins with a word for its
 * kind and the number of words that follow. */
static bool is_whole_bitcode(int fd, uint64_t size)
{
    static const unsigned char magic[] = {'B', 'C', 0xC0, 0xDE}, wrapped[] = {0xDE, 0xC0, 0x17, 0x0B};
    unsigned char head[4];
    uint32_t block[2];
    if (size < 8 || !read_at(fd, 0, head, sizeof head))
        return false;
    if (memcmp(head, magic, sizeof magic) != 0)
        return memcmp(head, wrapped, sizeof wrapped) == 0; /* bitcode in a wrapper: not checked */
    uint64_t at = sizeof head;
    while (at < size) {
        if (size - at < sizeof block || !read_at(fd, at, block, sizeof block))
            return false;
        at += sizeof block + UINT64_C(4) * block[1];
    }
    return at == size;
}

static void look_at(int parent, const char *name, clt_pocl_mended *out)
{
    struct stat info, now;
    bool bitcode = strcmp(name, PROGRAM_FILE) == 0 || strcmp(name, GROUPS_FILE) == 0;
    int fd = openat(parent, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        if (fd >= 0)
            (void)close(fd);
        return;
    }
    out->files++;
    uint64_t size = (uint64_t)info.st_size;
    bool whole = bitcode ? is_whole_bitcode(fd, size) : is_whole_elf(fd, size);
    (void)close(fd);
    /* PoCL may have renamed a new, finished file to this name meanwhile, which must not be removed */
    if (!whole && fstatat(parent, name, &now, AT_SYMLINK_NOFOLLOW) == 0 && now.st_ino == info.st_ino &&
        unlinkat(parent, name, 0) == 0)
        out->removed++;
}

static void note_closed(const char *path, clt_pocl_mended *out)
{
    if (out->closed == NULL)
        out->closed = strdup(path);
}

/* Checks the folder `path` of level `here`, which is open as `fd`, and the folders in it down to level
 * `last`; closes `fd`. `kernel`: the name of the kernel's folder, if `here` is LEVEL_KERNEL or deeper.
 * `path` is NULL in folders below LEVEL_PROGRAM, which do not need it. */
static void walk(int fd, const char *path, level here, level last, const char *kernel, clt_pocl_mended *out)
{
    DIR *list = fdopendir(fd);
    if (list == NULL) {
        (void)close(fd);
        return;
    }
    for (struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list)) {
        const char *name = entry->d_name;
        char *whole = NULL;
        if (is_file_name(name, here, kernel)) {
            look_at(fd, name, out);
            continue;
        }
        if ((entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) || !is_folder_name(name, here))
            continue;
        if (here < LEVEL_PROGRAM && path != NULL && clt_path_join(path, name, &whole) != CLT_OK)
            clt_error_clear();
        int inner = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        bool closed = inner < 0 ? errno == EACCES : faccessat(inner, ".", W_OK | X_OK, AT_EACCESS) != 0;
        if (whole != NULL && closed)
            note_closed(whole, out);
        if (inner >= 0 && here < last)
            walk(inner, whole, here + 1, last, here == LEVEL_PROGRAM ? name : kernel, out);
        else if (inner >= 0)
            (void)close(inner);
        free(whole);
    }
    closedir(list);
}

void clt_pocl_folder_mend(const char *folder, clt_pocl_mended *out)
{
    *out = (clt_pocl_mended){0};
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        walk(fd, folder, LEVEL_CACHE, LEVEL_SIZES, "", out);
}

/* Choosing */

/* The names of PoCL's temporary files begin in the same way, so that clearing its cache also removes a trial
 * file that a killed process left. */
#define TRIAL "tempfile_XXXXXX"
#define TRIAL_BYTES 4096

static clt_status may_not_run(const char *folder)
{
    CLT_FAIL(CLT_ESTORAGE, "files in '%s' may not be run: its file system is mounted with noexec", folder);
}

/* Writes a file and maps it as the system maps a library, then removes it. */
static clt_status try_file(const char *folder)
{
    static const char zeros[TRIAL_BYTES];
    CLT_FREED char *path = NULL;
    CLT_TRY(clt_path_join(folder, TRIAL, &path));
    CLT_CLOSED int fd = mkstemp(path);
    if (fd < 0)
        return clt_fail_errno(CLT_ESTORAGE, errno, "creating a file in '%s'", folder);
    clt_status status = clt_fd_write(fd, zeros, sizeof zeros, path);
    if (status == CLT_OK) {
        void *code = mmap(NULL, sizeof zeros, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
        int error = code == MAP_FAILED ? errno : 0;
        if (error == EPERM)
            status = may_not_run(folder);
        else if (error == EACCES)
            status = clt_fail_errno(CLT_ESTORAGE, error, "running a file in '%s'", folder);
        if (error == 0)
            (void)munmap(code, sizeof zeros);
    }
    (void)unlink(path);
    return status;
}

static clt_status check(const char *folder, bool make)
{
    struct statvfs info;
    if (make) {
        CLT_TRY(clt_mkdir_p(folder));
        return try_file(folder);
    }
    CLT_TRY(clt_mkdir_possible(folder));
    if (statvfs(folder, &info) == 0 && (info.f_flag & ST_NOEXEC) != 0)
        return may_not_run(folder);
    return CLT_OK;
}

static bool is_set(const char *value)
{
    return value != NULL && value[0] != '\0';
}

/* The folder that PoCL uses by default. */
static clt_status own_folder(char **out)
{
    const char *named = getenv(CLT_POCL_FOLDER_VARIABLE), *cache = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    clt_str path = {0};
    if (is_set(named))
        clt_str_append(&path, named);
    else if (is_set(cache))
        clt_str_printf(&path, "%s/pocl/kcache", cache);
    else if (home != NULL)
        clt_str_printf(&path, "%s/.cache/pocl/kcache", home);
    else
        clt_str_append(&path, "/tmp/pocl/kcache");
    return clt_str_take(&path, out);
}

static clt_status check_own(const char *folder, bool make)
{
    if (!is_set(getenv(CLT_POCL_FOLDER_VARIABLE)) && !is_set(getenv("XDG_CACHE_HOME")) &&
        getenv("HOME") == NULL)
        CLT_FAIL(CLT_ESTORAGE, "neither XDG_CACHE_HOME nor HOME is set, and everybody may write there");
    return check(folder, make);
}

/* Fails unless the folder is private to this user and not a link. */
static clt_status check_private(const char *folder, bool make)
{
    struct stat info;
    bool there = lstat(folder, &info) == 0;
    if (there && !S_ISDIR(info.st_mode))
        CLT_FAIL(CLT_ESTORAGE, "'%s' is not a folder", folder);
    if (make)
        CLT_TRY(clt_private_folder_make(folder));
    else if (there)
        CLT_TRY(clt_private_folder_check(folder));
    return check(folder, make);
}

/* Candidate number `index` to replace PoCL's own folder; *out stays NULL if there are no more. CLT_ESTORAGE:
 * the environment does not name this candidate. */
static clt_status spare_folder(int index, char **out)
{
    static const char *const places[] = {NULL, "/tmp", "/var/tmp", "/dev/shm"};
    clt_str path = {0};
    if (index == 0)
        return clt_cache_folder("pocl", out);
    if (index > (int)(sizeof places / sizeof places[0]))
        return CLT_OK;
    const char *place = index == 1 ? getenv("TMPDIR") : places[index - 1];
    if (place == NULL || place[0] != '/')
        CLT_FAIL(CLT_ESTORAGE, "TMPDIR is not set to an absolute path");
    clt_str_printf(&path, "%s/cltrain-pocl-%lu", place, (unsigned long)geteuid());
    return clt_str_take(&path, out);
}

static clt_status choose_spare(bool make, clt_pocl_folder *out)
{
    for (int i = 0;; i++) {
        CLT_FREED char *path = NULL;
        clt_status status = spare_folder(i, &path);
        if (status == CLT_OK && path == NULL)
            return CLT_OK;
        if (status == CLT_OK)
            status = check_private(path, make);
        if (status == CLT_OK)
            out->path = CLT_TAKE(path);
        if (status == CLT_OK || status == CLT_ENOMEM)
            return status;
        clt_error_clear();
    }
}

/* Gives up the current folder, because this user may not write into `closed`, and chooses another. */
static clt_status leave(clt_pocl_folder *folder, const char *closed, bool make)
{
    free(folder->refused);
    folder->refused = folder->path;
    folder->path = NULL;
    folder->closed = true;
    snprintf(folder->why, sizeof folder->why,
             "this user may not write into '%.300s' (chown -R it, or remove it)", closed);
    return choose_spare(make, folder);
}

/* Gives up PoCL's own folder if this user may not write into a folder inside it. */
static clt_status leave_if_closed(clt_pocl_folder *folder)
{
    clt_pocl_mended seen = {0};
    int fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        walk(fd, folder->path, LEVEL_CACHE, LEVEL_GROUP, "", &seen);
    clt_status status = seen.closed != NULL ? leave(folder, seen.closed, false) : CLT_OK;
    free(seen.closed);
    return status;
}

clt_status clt_pocl_folder_choose(bool make, clt_pocl_folder *out)
{
    char *own;
    *out = (clt_pocl_folder){0};
    CLT_TRY(own_folder(&own));
    clt_status status = check_own(own, make);
    if (status == CLT_OK) {
        out->path = own;
        if (!make) /* otherwise the caller checks the whole folder with clt_pocl_folder_mend */
            status = leave_if_closed(out);
    } else {
        out->refused = own;
        snprintf(out->why, sizeof out->why, "%.399s", clt_error_text());
        if (status != CLT_ENOMEM) {
            clt_error_clear();
            status = choose_spare(make, out);
        }
    }
    if (status != CLT_OK)
        clt_pocl_folder_free(out);
    return status;
}

clt_status clt_pocl_folder_leave(clt_pocl_folder *folder, const char *closed)
{
    return leave(folder, closed, true);
}

void clt_pocl_folder_free(clt_pocl_folder *folder)
{
    free(folder->path);
    free(folder->refused);
    *folder = (clt_pocl_folder){0};
}
