/* SPDX-License-Identifier: Apache-2.0
 *
 * usage: short_library LIBPOCL WORDS IN OUT
 * Writes the bitcode file IN, PoCL's library of built-in functions, to OUT with fewer functions: the ones that
 * the sorted lines of the file WORDS name, the ones that PoCL itself calls, and all that these call. PoCL
 * reads this library, 10 MB otherwise, in each process that compiles a kernel, which takes most of a second.
 * The LLVM is the one that LIBPOCL has loaded. Exit codes: 0; 1 if that LLVM has no C interface, and nothing
 * is written; 2 for every other failure. Each failure has a message on the standard error. */
#include <ctype.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INTERNAL_LINKAGE = 8 };

/* LLVM's C interface: llvm-c/Core.h, BitReader.h, BitWriter.h and Transforms/PassBuilder.h of LLVM 13. */
static struct {
    int (*read)(const char *path, void **buffer, char **message);
    int (*parse)(void *buffer, void **module);
    void *(*first)(void *module);
    void *(*next)(void *function);
    int (*declared)(void *function);
    const char *(*name)(void *value, size_t *length);
    int (*linkage)(void *function);
    void (*link_as)(void *function, int linkage);
    void *(*options)(void);
    void *(*run)(void *module, const char *passes, void *machine, void *options);
    int (*write)(void *module, const char *path);
} llvm;

static bool load(const char *libpocl)
{
    const struct {
        const char *name;
        void *where;
    } parts[] = {{"LLVMCreateMemoryBufferWithContentsOfFile", &llvm.read},
                 {"LLVMParseBitcode2", &llvm.parse},
                 {"LLVMGetFirstFunction", &llvm.first},
                 {"LLVMGetNextFunction", &llvm.next},
                 {"LLVMIsDeclaration", &llvm.declared},
                 {"LLVMGetValueName2", &llvm.name},
                 {"LLVMGetLinkage", &llvm.linkage},
                 {"LLVMSetLinkage", &llvm.link_as},
                 {"LLVMCreatePassBuilderOptions", &llvm.options},
                 {"LLVMRunPasses", &llvm.run},
                 {"LLVMWriteBitcodeToFile", &llvm.write}};
    if (dlopen(libpocl, RTLD_NOW | RTLD_GLOBAL) == NULL) {
        fprintf(stderr, "short_library: %s\n", dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        void *found = dlsym(RTLD_DEFAULT, parts[i].name);
        if (found == NULL) {
            fprintf(stderr, "short_library: the LLVM of %s has no %s\n", libpocl, parts[i].name);
            return false;
        }
        memcpy(parts[i].where, &found, sizeof found);
    }
    return true;
}

/* The lines of WORDS. */
static char **words;
static size_t word_count;

static bool read_words(const char *path)
{
    FILE *f = fopen(path, "r");
    char line[512];
    if (f == NULL)
        return false;
    while (fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        words = realloc(words, (word_count + 1) * sizeof *words);
        words[word_count++] = strdup(line);
    }
    fclose(f);
    return word_count > 0;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool named(const char *word)
{
    return bsearch(&word, words, word_count, sizeof *words, compare) != NULL;
}

/* Whether PoCL may look for a function by its name. Built-in functions of OpenCL have mangled names, such as
 * _Z3expf or, from a macro of PoCL's header, _Z7_cl_expf; their names without digits at the end count, too,
 * as in short_pocl.sh. Functions of SLEEF serve only the built-in functions. */
static bool wanted(const char *symbol)
{
    char name[256];
    size_t length;
    if (strncmp(symbol, "_Z", 2) != 0 || !isdigit((unsigned char)symbol[2]))
        return strncmp(symbol, "Sleef_", 6) != 0;
    char *begin;
    length = strtoul(symbol + 2, &begin, 10);
    if (length >= sizeof name || length > strlen(begin))
        return true;
    if (length > 4 && strncmp(begin, "_cl_", 4) == 0)
        begin += 4, length -= 4;
    memcpy(name, begin, length);
    name[length] = '\0';
    if (named(name))
        return true;
    while (length > 0 && isdigit((unsigned char)name[length - 1]))
        name[--length] = '\0';
    return named(name);
}

/* A function that is not wanted; if it is called, it stays, with its linkage. */
typedef struct {
    char *name;
    int linkage;
} hidden;

static bool shorten(void *module)
{
    hidden *list = NULL;
    size_t count = 0, i = 0, length;
    for (void *f = llvm.first(module); f != NULL; f = llvm.next(f)) {
        const char *name = llvm.name(f, &length);
        if (llvm.declared(f) || wanted(name))
            continue;
        list = realloc(list, (count + 1) * sizeof *list);
        list[count++] = (hidden){strdup(name), llvm.linkage(f)};
        llvm.link_as(f, INTERNAL_LINKAGE);
    }
    if (llvm.run(module, "globaldce,strip-dead-prototypes", NULL, llvm.options()) != NULL)
        return false;
    for (void *f = llvm.first(module); f != NULL; f = llvm.next(f)) { /* in the same order as above */
        size_t j = i;
        while (j < count && strcmp(list[j].name, llvm.name(f, &length)) != 0)
            j++;
        if (j < count) {
            llvm.link_as(f, list[j].linkage);
            i = j + 1;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    void *buffer, *module;
    char *message = NULL;
    if (argc != 5) {
        fprintf(stderr, "usage: short_library LIBPOCL WORDS IN OUT\n");
        return 2;
    }
    if (!load(argv[1]))
        return 1;
    if (read_words(argv[2]) && llvm.read(argv[3], &buffer, &message) == 0 &&
        llvm.parse(buffer, &module) == 0 && shorten(module) && llvm.write(module, argv[4]) == 0)
        return 0;
    fprintf(stderr, "short_library: %s cannot be shortened to the words of %s\n", argv[3], argv[2]);
    return 2;
}
