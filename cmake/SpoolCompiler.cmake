# Compiler options: the same for every target of Spool.

set(_known_compilers "GNU;Clang;AppleClang")
if(NOT CMAKE_CXX_COMPILER_ID IN_LIST _known_compilers)
  message(WARNING "Spool is tested with GCC 12+ and Clang 14+; this is ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "Spool needs GCC 12 or newer, this is ${CMAKE_CXX_COMPILER_VERSION}: apt install g++-12, then configure with -DCMAKE_CXX_COMPILER=g++-12")
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  message(FATAL_ERROR "Spool needs Clang 14 or newer, this is ${CMAKE_CXX_COMPILER_VERSION}: apt install clang-14, then configure with -DCMAKE_CXX_COMPILER=clang++-14")
endif()

if(SPOOL_SANITIZE)
  add_compile_options(-fsanitize=${SPOOL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SPOOL_SANITIZE})
endif()

function(spool_compile_options target)
  # Of C++ alone: what nvcc makes of a .cu file for the host compiler is not ours to tidy.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wnon-virtual-dtor;-Wold-style-cast>")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC 12 sees overlapping and overflowing strings where there are none (GCC bugs 105651, 105762, 105329).
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;-Wno-stringop-overflow;-Wno-array-bounds>")
  endif()
  if(SPOOL_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-Werror>" "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>")
  endif()
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()

# CPU kernels are compiled for the machine's vector units; everything else for any machine of the architecture. No -ffast-math: NaN and infinity
# must travel, and results must not depend on the optimiser's mood.
function(spool_cpu_kernel_options folder)
  file(GLOB _kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
  set(_flags -fno-math-errno -fno-trapping-math -Wno-psabi)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND _flags -Wno-pass-failed)  # a loop that may be vectorised but is not, at low optimisation, is no fault
  elseif(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    list(APPEND _flags -Wno-uninitialized -Wno-maybe-uninitialized)  # its own AVX-512 header trips them (GCC bug 105593)
  endif()
  if(SPOOL_CPU_ARCH)
    list(APPEND _flags -march=${SPOOL_CPU_ARCH})
  endif()
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    list(APPEND _flags -O3)
  endif()
  set_source_files_properties(${_kernels} PROPERTIES COMPILE_OPTIONS "${_flags}")
endfunction()
