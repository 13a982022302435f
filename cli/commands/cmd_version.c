/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain version: prints version, compiler and features of the program. */
#include <stdio.h>
#include <string.h>

#include "cl/device/loader_text.h"
#include "cl/drivers/icd_loader.h"
#include "cl/gemm/gemm.h"
#include "cli/screen/args.h"
#include "cli/screen/cmd.h"
#include "engine/json/json.h"

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown"
#endif

static const char *build_type(void)
{
#if defined(__SANITIZE_ADDRESS__)
    return "sanitizers";
#elif defined(NDEBUG)
    return "release";
#else
    return "debug";
#endif
}

static bool has_backend(const char *name)
{
    for (const ocl_variant *const *v = ocl_gemm_variants; *v; v++)
        if (strcmp((*v)->name, name) == 0)
            return true;
    return false;
}

static clt_status print_json(const char *loader)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_json_writer w = clt_json_writer_make(&text, 2);
    clt_jw_object(&w);
    clt_jw_kstring(&w, "version", CLT_VERSION);
    clt_jw_kstring(&w, "compiler", COMPILER);
    clt_jw_kstring(&w, "build_type", build_type());
    clt_jw_kstring(&w, "opencl_headers", ocl_header_version());
    clt_jw_kstring(&w, "opencl_loader", loader);
    clt_jw_kbool(&w, "clblast", has_backend("clblast"));
    clt_jw_end_object(&w);
    return cmd_write_line("-", &text);
}

clt_status cmd_version(cmd_context *context, int argc, char **argv)
{
    bool json = false;
    char loader[512];
    const args_option options[] = {ARGS_JSON(json), ARGS_END};
    const args_usage usage = ARGS_USAGE("version", "", 0, 0, options, "Prints versions.");
    args_result r;
    (void)context;
    ARGS_PARSE(&usage, argc, argv, &r);
    ocl_loader_text(loader, sizeof loader);
    if (json)
        return print_json(loader);
    printf("cltrain %s\n%-15s %s\n%-15s %s\n%-15s OpenCL %s\n%-15s %s\n%-15s %s\n", CLT_VERSION, "compiler",
           COMPILER, "build type", build_type(), "headers", ocl_header_version(), "loader", loader, "CLBlast",
           has_backend("clblast") ? "yes" : "no");
    return CLT_OK;
}
