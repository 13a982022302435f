/* SPDX-License-Identifier: Apache-2.0
 *
 * The library of an OpenCL driver that ends or blocks the process when it is loaded. Built with
 * HARM_listing: a library that is preloaded and ends the child process that lists devices as soon as the
 * loader looks for drivers. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HARM_listing
static int lists_devices(void)
{
    char text[4096];
    FILE *file = fopen("/proc/self/cmdline", "r");
    size_t n = file ? fread(text, 1, sizeof text, file) : 0;
    if (file)
        fclose(file);
    return memmem(text, n, "--list", 7) != NULL;
}

__attribute__((visibility("default"))) DIR *opendir(const char *name)
{
    if (lists_devices()) {
        fputs("bad_driver: a layer between program and drivers fails\n", stderr);
        abort();
    }
    return ((DIR * (*)(const char *))(uintptr_t)dlsym(RTLD_NEXT, "opendir"))(name);
}
#else
__attribute__((constructor)) static void harm(void)
{
#ifdef HARM_abort
    fputs("bad_driver: cannot find my compiler\n", stderr);
    abort();
#else
    for (;;)
        sleep(1000);
#endif
}
#endif
