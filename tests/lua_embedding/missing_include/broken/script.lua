-- include: common/nowhere
return 1
