# Everybody, in the tree and installed, writes #include <spool/core/tensor.h>. In the tree, <build>/include/spool/<folder> is a link to the folder.

function(spool_public_headers target)
  set(_include ${PROJECT_BINARY_DIR}/include)
  file(MAKE_DIRECTORY ${_include}/spool)
  set(_headers)
  foreach(_folder ${ARGN})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${_folder} ${_include}/spool/${_folder} SYMBOLIC COPY_ON_ERROR)
    file(GLOB_RECURSE _found CONFIGURE_DEPENDS ${_include}/spool/${_folder}/*.h)
    list(APPEND _headers ${_found})
  endforeach()
  if(IS_SYMLINK ${_include}/spool/spool.h)
    file(REMOVE ${_include}/spool/spool.h)
  endif()
  configure_file(${PROJECT_SOURCE_DIR}/core/spool.h ${_include}/spool/spool.h COPYONLY)  # a link to the file itself would be installed as a link
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${_include} FILES ${_headers} ${_include}/spool/spool.h)
endfunction()
