/* SPDX-License-Identifier: Apache-2.0
 *
 * Cleaning up by scope: what is destroyed, in which order, on which paths; what is handed over; the kept
 * error. ctest-labels: quick */
#include "tests/unit/test.h"

#include "engine/base/scope.h"

typedef struct thing {
    int number;
} thing;

static char ended[32]; /* the numbers of the things that were destroyed, in order */

/* Fails inside, as the destroy function of a thing that waits for a device may. */
static void thing_destroy(thing *t)
{
    CLT_KEEP_ERROR();
    if (t == NULL)
        return;
    size_t n = strlen(ended);
    ended[n] = (char)('0' + t->number);
    (void)clt_fail(CLT_EDEVLOST, __FILE__, __LINE__, "while destroying %d", t->number);
}
CLT_SCOPED_POINTER(thing, thing_destroy)

typedef thing value;
CLT_SCOPED_VALUE(value, thing_destroy)

static clt_status make(thing *from, thing **out)
{
    *out = from;
    return CLT_OK;
}

static clt_status work(thing *t, int fail_at, thing **out)
{
    CLT_SCOPED(thing) *first = NULL;
    CLT_SCOPED(value) second = {2};
    CLT_FREED char *memory = malloc(8);
    assert_non_null(memory);
    if (fail_at == 0)
        CLT_FAIL(CLT_EDATA, "before anything");
    CLT_TRY(make(&t[0], &first));
    for (int i = 0; i < 2; i++) {
        CLT_SCOPED(thing) *inner = NULL;
        CLT_TRY(make(&t[1 + i], &inner));
        if (fail_at == 1 + i)
            CLT_FAIL(CLT_EDATA, "in turn %d", i);
    }
    *out = CLT_TAKE(first);
    return CLT_OK;
}

TEST(test_paths)
{
    static const struct {
        int fail_at;
        const char *ended, *error;
    } cases[] = {{0, "2", "before anything"},
                 {1, "521", "in turn 0"},
                 {2, "5621", "in turn 1"},
                 {9, "562", "as before"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        thing t[3] = {{1}, {5}, {6}}, *out = NULL;
        memset(ended, 0, sizeof ended);
        (void)clt_fail(CLT_EUSAGE, __FILE__, __LINE__, "as before");
        clt_status status = work(t, cases[i].fail_at, &out);
        assert_int_equal(status, cases[i].fail_at < 3 ? CLT_EDATA : CLT_OK);
        assert_ptr_equal(out, status == CLT_OK ? &t[0] : NULL);
        assert_string_equal(ended, cases[i].ended);
        assert_string_equal(clt_error_text(), cases[i].error);
    }
}

TEST(test_kept_error)
{
    clt_error_clear();
    {
        CLT_KEEP_ERROR();
        (void)clt_fail(CLT_EDATA, __FILE__, __LINE__, "passing");
        assert_string_equal(clt_error_text(), "passing");
    }
    assert_string_equal(clt_error_text(), "");
    assert_string_equal(clt_error_origin(), "");
}
