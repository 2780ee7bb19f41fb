# cmake -DLUA_DIR=<lua> -DOUTPUT_DIR=<dir> [-DLUAC=<luac5.1>] [-DNAMESPACE=<name>] -P embed_lua.cmake
#
# Writes OUTPUT_DIR/scripts.h, a constant for each LUA_DIR/<folder>/<operation>.lua, and each
# assembled script next to it, where luac5.1 checks it if LUAC names one; and OUTPUT_DIR/pieces.h, every file as it is,
# from which a user's own scripts may be assembled at run time. Sources are only ever handled as quoted
# strings: as list elements, CMake would split them at semicolons and mangle brackets.
cmake_minimum_required(VERSION 3.22)

set(delimiter "redlatch_lua")
if(NOT NAMESPACE)
  set(NAMESPACE lua)
endif()
string(TOUPPER "${NAMESPACE}" guard)

# Sets `out` to the text of `name` (such as common/time), with each line `-- include: <name>`
# replaced by that file, the first time it is asked for. A line `-- replaces: <piece>` says that the
# file defines that piece itself. ARGN is the chain of files being included.
function(assemble name out)
  if("${name}" IN_LIST ARGN)
    string(REPLACE ";" " -> " chain "${ARGN};${name}")
    message(FATAL_ERROR "lua: include cycle: ${chain}")
  endif()
  if(NOT EXISTS "${LUA_DIR}/${name}.lua")
    list(GET ARGN -1 includer)
    message(FATAL_ERROR "lua: ${includer}.lua includes ${name}, but there is no lua/${name}.lua")
  endif()
  get_property(done GLOBAL PROPERTY lua_included)
  if("${name}" IN_LIST done)
    set(${out} "" PARENT_SCOPE)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY lua_included "${name}")

  file(READ "${LUA_DIR}/${name}.lua" rest)
  set(text "\n${rest}")
  set(assembled "")
  while("${text}" MATCHES "\n-- (include|replaces): ([a-z0-9_/]+)\n")
    set(line "${CMAKE_MATCH_0}")
    set(verb "${CMAKE_MATCH_1}")
    set(included "${CMAKE_MATCH_2}")
    string(FIND "${text}" "${line}" position)
    string(LENGTH "${line}" length)
    string(SUBSTRING "${text}" 0 ${position} before)
    math(EXPR position "${position} + ${length} - 1")
    string(SUBSTRING "${text}" ${position} -1 text)
    # `text` again starts with a newline, which ends what is put here.
    if(verb STREQUAL "replaces")
      set_property(GLOBAL APPEND PROPERTY lua_included "${included}")
      set(body "")
    else()
      assemble("${included}" body ${ARGN} "${name}")
      string(REGEX REPLACE "\n$" "" body "\n${body}")
    endif()
    string(APPEND assembled "${before}${body}")
  endwhile()
  string(APPEND assembled "${text}")
  if("${assembled}" MATCHES "\n([ \t]*--[ \t]*(include|replaces)[ \t]*:[^\n]*)")
    message(FATAL_ERROR "lua: ${name}.lua: malformed include line: ${CMAKE_MATCH_1}")
  endif()
  string(SUBSTRING "${assembled}" 1 -1 assembled)
  set(${out} "${assembled}" PARENT_SCOPE)
endfunction()

file(GLOB files RELATIVE "${LUA_DIR}" "${LUA_DIR}/*/*.lua")
list(SORT files)
set(header "// Generated from lua/ by cmake/embed_lua.cmake.
#ifndef REDLATCH_${guard}_SCRIPTS_H_
#define REDLATCH_${guard}_SCRIPTS_H_

#include <string_view>

#include \"redlatch/lua_script.h\"

namespace redlatch::${NAMESPACE} {

// With it a text's length is known; else the compiler would count it, for seconds.
using std::string_view_literals::operator\"\"sv;
")

set(all "")
foreach(file IN LISTS files)
  string(REGEX REPLACE "\\.lua$" "" name "${file}")
  if(name MATCHES "^common/")
    continue()
  endif()
  set_property(GLOBAL PROPERTY lua_included "")
  assemble("${name}" body)
  if("${body}" MATCHES "\\)${delimiter}\"")
    message(FATAL_ERROR "lua: ${file} contains the string literal delimiter ')${delimiter}\"'")
  endif()

  file(WRITE "${OUTPUT_DIR}/${file}" "${body}")
  if(LUAC)
    execute_process(COMMAND "${LUAC}" -p "${OUTPUT_DIR}/${file}"
      RESULT_VARIABLE result ERROR_VARIABLE error)
    if(NOT result EQUAL 0)
      message(FATAL_ERROR "lua: ${file} is not Lua 5.1 (lines as assembled): ${error}")
    endif()
  endif()

  # simple/try_acquire -> kSimpleTryAcquire
  string(REGEX REPLACE "[/_]" ";" words "${name}")
  set(constant "k")
  foreach(word IN LISTS words)
    string(SUBSTRING "${word}" 0 1 initial)
    string(SUBSTRING "${word}" 1 -1 tail)
    string(TOUPPER "${initial}" initial)
    string(APPEND constant "${initial}${tail}")
  endforeach()
  string(SHA1 sha1 "${body}")
  string(APPEND header "
inline constexpr LuaScript ${constant}{
    .name = \"${name}\",
    .body = R\"${delimiter}(${body})${delimiter}\"sv,
    .sha1 = \"${sha1}\",
};
")
  string(APPEND all "${constant}, ")
  if(constant MATCHES "^(.*)ForceRelease$")
    list(APPEND locks "${CMAKE_MATCH_1}")
  endif()
endforeach()
foreach(lock IN LISTS locks)
  string(APPEND header "
inline constexpr LockScripts ${lock}Scripts{
    .acquire = ${lock}Acquire,
    .release = ${lock}Release,
    .renew = ${lock}Renew,
    .cancel = ${lock}Cancel,
    .inspect = ${lock}Inspect,
    .force_release = ${lock}ForceRelease,
};
")
endforeach()

file(GLOB pieces RELATIVE "${LUA_DIR}" "${LUA_DIR}/*/*.lua" "${LUA_DIR}/*/common/*.lua")
list(SORT pieces)
set(table "")
foreach(file IN LISTS pieces)
  string(REGEX REPLACE "\\.lua$" "" name "${file}")
  file(READ "${LUA_DIR}/${file}" text)
  string(APPEND table "    {\"${name}\", R\"${delimiter}(${text})${delimiter}\"sv},\n")
endforeach()
file(WRITE "${OUTPUT_DIR}/pieces.h.new" "// Generated from lua/ by cmake/embed_lua.cmake.
#ifndef REDLATCH_${guard}_PIECES_H_
#define REDLATCH_${guard}_PIECES_H_

#include <string_view>

namespace redlatch::${NAMESPACE} {

using std::string_view_literals::operator\"\"sv;

struct Piece {
  std::string_view name;  // as in `-- include: common/time`
  std::string_view text;  // with its own includes
};
inline constexpr Piece kPieces[] = {
${table}};

}  // namespace redlatch::${NAMESPACE}

#endif  // REDLATCH_${guard}_PIECES_H_
")
file(COPY_FILE "${OUTPUT_DIR}/pieces.h.new" "${OUTPUT_DIR}/pieces.h" ONLY_IF_DIFFERENT)

string(REGEX REPLACE ", $" "" all "${all}")
string(APPEND header "
inline constexpr LuaScript kAll[] = {${all}};

}  // namespace redlatch::${NAMESPACE}

#endif  // REDLATCH_${guard}_SCRIPTS_H_
")
file(WRITE "${OUTPUT_DIR}/scripts.h.new" "${header}")
file(COPY_FILE "${OUTPUT_DIR}/scripts.h.new" "${OUTPUT_DIR}/scripts.h" ONLY_IF_DIFFERENT)
