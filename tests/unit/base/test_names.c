/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of names: names that were added are found, others are not, a prefix is a name of its own, and the
 * first value of a name is kept. ctest-labels: quick */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/names.h"

#define COUNT 5000

static void test_many(void **state)
{
    static char text[COUNT][24];
    clt_names names = {0};
    uintptr_t value;
    (void)state;
    assert_false(clt_names_find(&names, "a", 1, &value));
    for (uintptr_t i = 0; i < COUNT; i++) {
        snprintf(text[i], sizeof text[i], "layer%u", (unsigned)i);
        assert_int_equal(clt_names_add(&names, text[i], i), CLT_OK);
    }
    assert_int_equal(names.n, COUNT);
    for (uintptr_t i = 0; i < COUNT; i++) {
        assert_true(clt_names_find(&names, text[i], strlen(text[i]), &value));
        assert_int_equal(value, i);
    }
    assert_false(clt_names_find(&names, "layer", 5, &value));
    assert_false(clt_names_find(&names, "layer5000", 9, &value));
    assert_true(clt_names_find(&names, "layer4999 and more", 9, &value));
    assert_int_equal(value, 4999);
    clt_names_free(&names);
    assert_false(clt_names_find(&names, "layer1", 6, &value));
}

static void test_first_stays(void **state)
{
    clt_names names = {0};
    uintptr_t value = 0;
    (void)state;
    assert_int_equal(clt_names_add(&names, "", 7), CLT_OK);
    assert_int_equal(clt_names_add(&names, "x", 1), CLT_OK);
    assert_int_equal(clt_names_add(&names, "x", 2), CLT_OK);
    assert_int_equal(names.n, 2);
    assert_true(clt_names_find(&names, "x", 1, &value));
    assert_int_equal(value, 1);
    assert_true(clt_names_find(&names, "", 0, &value));
    assert_int_equal(value, 7);
    clt_names_free(&names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_many), cmocka_unit_test(test_first_stays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
