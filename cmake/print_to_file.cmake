# SPDX-License-Identifier: Apache-2.0
#
# Writes what "PROGRAM ARGUMENTS" prints to the file OUT.
get_filename_component(folder ${OUT} DIRECTORY)
file(MAKE_DIRECTORY ${folder})
execute_process(COMMAND ${PROGRAM} ${ARGUMENTS} OUTPUT_FILE ${OUT} RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  file(REMOVE ${OUT})
  message(FATAL_ERROR "'${PROGRAM} ${ARGUMENTS}' ended with ${code}")
endif()
