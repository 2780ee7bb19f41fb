# Run by cpack when the files of the packages lie in their places: adds what Debian wants of each.
cmake_minimum_required(VERSION 3.22)

string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
foreach(component IN ITEMS command development)
  string(TOUPPER "${component}" key)
  set(package "${CPACK_DEBIAN_${key}_PACKAGE_NAME}")
  set(root "${CPACK_TEMPORARY_DIRECTORY}/${component}/usr/share")
  if(NOT IS_DIRECTORY "${CPACK_TEMPORARY_DIRECTORY}/${component}/usr")
    continue()  # the tarball, whose files are not by component
  endif()
  configure_file("${CMAKE_CURRENT_LIST_DIR}/copyright" "${root}/doc/${package}/copyright" COPYONLY)
  file(WRITE "${root}/doc/${package}/changelog" "redlatch (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * As CHANGELOG.md of the sources says.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  file(GLOB pages "${root}/man/man*/*.[0-9]")
  file(CHMOD "${root}/doc/${package}/changelog" ${pages}
    PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  execute_process(COMMAND gzip -9nf "${root}/doc/${package}/changelog" ${pages}
    COMMAND_ERROR_IS_FATAL ANY)
endforeach()
