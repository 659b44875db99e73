#pragma once
#include "options.h"

// Prints what the network of options.load takes each of options.pictures for. Pictures that cannot be read are named on standard error; false
// when there were any.
bool predict(const Options& options);
