/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of names: names that were added are found, others are not, a prefix is a name of its own, and the
 * first value of a name is kept. ctest-labels: quick */
#include "tests/unit/test.h"

#include "engine/base/names.h"

#define COUNT 5000

TEST(test_many)
{
    static char text[COUNT][24];
    clt_names names = {0};
    uintptr_t value;
    assert_false(clt_names_find(&names, "a", 1, &value));
    for (uintptr_t i = 0; i < COUNT; i++) {
        snprintf(text[i], sizeof text[i], "layer%u", (unsigned)i);
        assert_ok(clt_names_add(&names, text[i], i));
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

TEST(test_first_stays)
{
    clt_names names = {0};
    uintptr_t value = 0;
    assert_ok(clt_names_add(&names, "", 7));
    assert_ok(clt_names_add(&names, "x", 1));
    assert_ok(clt_names_add(&names, "x", 2));
    assert_int_equal(names.n, 2);
    assert_true(clt_names_find(&names, "x", 1, &value));
    assert_int_equal(value, 1);
    assert_true(clt_names_find(&names, "", 0, &value));
    assert_int_equal(value, 7);
    clt_names_free(&names);
}
