# hetir_add_kernels(TARGET FILES FILE.py... TARGETS TARGET...
#                   [SIGNATURES SIGNATURE...] [WORKGROUPS SIZE...])
#
# Builds the kernels of each file into NAME.hetbin, again when the file or a Python file that it
# imports from beside it changes, and embeds it in TARGET. `#include "NAME.hetbin.h"` declares
# `hetir_NAME` and `hetir_NAME_size`, for hetir_module_from_memory. NAME is the file's, without .py.
#
# HETIR_EXECUTABLE is the `hetir` command that compiles; it is looked for on the PATH.
find_program(HETIR_EXECUTABLE hetir DOC "The hetir command, which compiles kernels")

set(_hetir_templates "${CMAKE_CURRENT_LIST_DIR}")

function(hetir_add_kernels target)
  cmake_parse_arguments(PARSE_ARGV 1 given "" "" "FILES;TARGETS;SIGNATURES;WORKGROUPS")
  if(given_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "hetir_add_kernels: unknown words ${given_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT given_FILES OR NOT given_TARGETS)
    message(FATAL_ERROR "hetir_add_kernels: FILES and TARGETS are needed")
  endif()
  if(NOT HETIR_EXECUTABLE)
    message(FATAL_ERROR "hetir_add_kernels: there is no `hetir` command; pip install hetir, or set "
                        "HETIR_EXECUTABLE")
  endif()
  set(options "")
  foreach(pair IN ITEMS TARGETS:--target SIGNATURES:--signature WORKGROUPS:--workgroup)
    string(REPLACE ":" ";" pair "${pair}")
    list(GET pair 0 word)
    list(GET pair 1 option)
    foreach(value IN LISTS given_${word})
      list(APPEND options "${option}" "${value}")
    endforeach()
  endforeach()
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  set(extension c)
  if(NOT C IN_LIST languages)
    set(extension cpp)
  endif()
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/hetir_kernels/${target}")
  file(MAKE_DIRECTORY "${folder}")
  foreach(file IN LISTS given_FILES)
    get_filename_component(source "${file}" ABSOLUTE)
    get_filename_component(name "${file}" NAME_WE)
    if(NOT name MATCHES "^[A-Za-z_][A-Za-z0-9_]*$")
      message(FATAL_ERROR "hetir_add_kernels: `${name}` of ${file} is no C name")
    endif()
    set(hetbin "${folder}/${name}.hetbin")
    add_custom_command(
      OUTPUT "${hetbin}"
      COMMAND "${HETIR_EXECUTABLE}" build "${source}" -o "${hetbin}" --deps "${hetbin}.d" ${options}
      DEPENDS "${source}"
      DEPFILE "${hetbin}.d"
      COMMENT "Building the kernels of ${file}"
      VERBATIM)
    configure_file("${_hetir_templates}/embed.h.in" "${folder}/${name}.hetbin.h" @ONLY)
    set(embedded "${folder}/${name}.embed.${extension}")
    configure_file("${_hetir_templates}/embed.c.in" "${embedded}" @ONLY)
    set_source_files_properties("${embedded}" PROPERTIES OBJECT_DEPENDS "${hetbin}")
    target_sources(${target} PRIVATE "${embedded}" "${hetbin}")
  endforeach()
  target_include_directories(${target} PRIVATE "${folder}")
endfunction()
